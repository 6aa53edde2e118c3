"""Where the time of a run goes: tables and a trace."""
