"""The built-in operators, family by family: definitions only, which import no numpy."""
