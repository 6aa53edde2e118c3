"""The catalogue of bad input and faults: which tests show each row, or why none does.

A test is named by its module below ``tests`` and its function. Where a row says less than it
should, the words behind ``partly`` say what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

_SPEC = "spec/test_rows"
_CLI = "cli/test_rows"
_START = "runner/test_start_or_resume"
_DIRECTORY = "e2e/test_run_directory"
_FILE = "checkpoint/test_checkpoint_file"
_FILE_SYSTEM = "runner/preflight/test_filesystem"
_HOSTILE = "e2e/test_hostile"
_FAULTS = "e2e/test_faults"
_ENDS = "e2e/test_ends"


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        subject: The input or the fault.
        tests: ``module::function`` each, the module below ``tests`` without its suffix.
        partly: What no test shows, and why.
    """

    subject: str
    tests: tuple[str, ...] = ()
    partly: str = ""


def _of(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{module}::test_{name}" for name in names)


ROWS: dict[int, Row] = {
    1: Row("duplicate key", _of(_SPEC, "row_01_duplicate_key")),
    2: Row("tab indentation", _of(_SPEC, "row_02_tab_indentation")),
    3: Row("no, on, y", _of(_SPEC, "row_03_old_bool_where_a_bool_is_wanted")),
    4: Row("010, 1:30", _of(_SPEC, "row_04_old_number_where_a_number_is_wanted")),
    5: Row("1e-3 is a number", _of(_SPEC, "row_05_exponent_without_a_point_is_a_float")),
    6: Row("a date", _of(_SPEC, "row_06_date_is_text")),
    7: Row(".nan, .inf, 1e999", _of(_SPEC, "row_07_number_too_large_for_a_float")),
    8: Row("5,000 digits", _of(_SPEC, "row_08_integer_of_five_thousand_digits")),
    9: Row("billion laughs", _of(_SPEC, "row_09_billion_laughs")),
    10: Row("merge-key bomb", _of(_SPEC, "row_10_merge_key_bomb")),
    11: Row("self cycle", _of(_SPEC, "row_11_alias_of_what_is_around_it")),
    12: Row("deep nesting", _of(_SPEC, "row_12_deep_nesting_in_blocks")),
    13: Row(
        "no regular file, or a huge one",
        _of(_SPEC, "row_13_a_named_pipe_does_not_hang", "row_13_a_file_of_two_gigabytes"),
    ),
    14: Row("bytes that are no text", _of(_SPEC, "row_14_bytes_that_are_not_utf_8")),
    15: Row("tags", _of(_SPEC, "row_15_tags")),
    16: Row("no mapping", _of(_SPEC, "row_16_no_mapping")),
    17: Row("unknown key", _of(_SPEC, "row_17_unknown_key")),
    18: Row("wrong type", _of(_SPEC, "row_18_wrong_type")),
    19: Row("odd keys", _of(_SPEC, "row_19_keys_that_are_not_text")),
    20: Row(
        "cycle",
        _of("compile/job_draft/test_task_order", "row_20_a_cycle_is_printed_with_its_place"),
    ),
    21: Row("names alike but for case", _of(_SPEC, "row_21_node_names_that_differ_in_case")),
    22: Row("names that lead elsewhere", _of(_SPEC, "row_22_node_names_that_are_no_file_names")),
    23: Row("a billion nodes", _of(_SPEC, "row_23_a_billion_nodes")),
    24: Row("anchor only", _of(_SPEC, "row_24_an_anchor_that_nothing_uses")),
    25: Row(
        "unknown option",
        _of(_CLI, "row_25_an_unknown_command_or_option_is_refused_with_the_nearest_name"),
    ),
    26: Row("--epoch 99", _of(_CLI, "row_26_an_epoch_that_is_not_there_is_refused")),
    27: Row("no run", _of(_CLI, "row_27_what_is_no_run_cannot_be_resumed")),
    28: Row("a second run", _of(_CLI, "row_28_an_unfinished_run_is_not_started_over_by_accident")),
    29: Row(
        "spec changed",
        (
            *_of(_CLI, "row_29_a_changed_spec_is_refused_field_by_field"),
            *_of("cli/jobs/test_fork", "the_refusal_of_drift_names_a_fork_that_works"),
        ),
    ),
    30: Row(
        "code, versions, data changed",
        (
            *_of(_CLI, "row_30_another_callable_is_refused"),
            *_of(_START, "row_30_other_numerics_warn_and_are_refused_only_when_strict"),
            *_of(
                "runner/identity/test_data_fingerprints",
                "a_touched_file_is_the_same_and_another_is_drift",
            ),
        ),
    ),
    31: Row("stdout closed", _of(_CLI, "row_31_a_reader_that_goes_away_loses_no_epoch")),
    32: Row("odd environment", _of(_CLI, "row_32_the_environment_does_not_change_the_bits")),
    33: Row("limits", _of(_CLI, "row_33_few_open_files_are_enough_or_are_reported")),
    34: Row(
        "LD_PRELOAD, PYTHONPATH",
        _of(_DIRECTORY, "row_34_what_is_preloaded_does_not_reach_programs"),
    ),
    35: Row(
        "two runners",
        _of(
            "runner/rundir/test_lock",
            "row_35_second_runner_is_refused_with_the_name_of_the_holder",
        ),
    ),
    36: Row(
        "stopped holder", _of("runner/rundir/test_lock", "row_36_a_stopped_holder_still_holds")
    ),
    37: Row(
        "killed holder", _of("runner/rundir/test_lock", "row_37_a_killed_holder_needs_no_unlocking")
    ),
    38: Row("lock file replaced", _of(_START, "row_38_no_commit_after_the_lock_was_taken_away")),
    39: Row(
        "directory swapped",
        _of(
            _DIRECTORY,
            "row_39_a_run_directory_swapped_while_it_runs_gets_nothing_more",
            "row_39_a_link_of_another_user_in_place_of_the_checkpoints_is_refused",
        ),
    ),
    40: Row(
        "link, pipe, device, hard link",
        _of(
            _HOSTILE, "rows_40_to_54_a_damaged_newest_epoch_is_reported_and_the_one_before_is_used"
        ),
    ),
    41: Row(
        "world-writable",
        _of(_DIRECTORY, "row_41_a_run_that_everyone_may_change_is_refused_unless_trusted"),
    ),
    42: Row(
        "read-only",
        (
            *_of(_DIRECTORY, "row_42_an_unwritable_directory_is_reported_at_the_start"),
            *_of(
                "runner/preflight/test_filesystem", "row_42_a_directory_is_tried_by_writing_into_it"
            ),
        ),
    ),
    43: Row(
        "disk full",
        (
            *_of(
                _FAULTS,
                "row_43_and_44_every_refused_call_loses_nothing",
                "row_43_a_disk_that_stays_full_loses_nothing",
            ),
            *_of(_START, "row_43_the_room_is_looked_at_before_each_commit"),
        ),
    ),
    44: Row(
        "I/O error",
        _of(
            _FAULTS,
            "row_43_and_44_every_refused_call_loses_nothing",
            "an_fsync_that_failed_is_not_asked_again",
            "row_44_a_resume_that_cannot_read_falls_back_or_is_refused",
        ),
    ),
    45: Row(
        "directory removed", _of(_DIRECTORY, "row_45_a_directory_removed_under_us_ends_with_words")
    ),
    46: Row("stray files", _of(_HOSTILE, "row_46_what_lies_about_is_ignored")),
    47: Row("copied run", _of(_DIRECTORY, "row_47_a_copy_by_rsync_or_cp_continues_elsewhere")),
    48: Row(
        "copied while running",
        _of(_DIRECTORY, "row_48_a_copy_made_while_it_runs_verifies_or_is_refused"),
    ),
    49: Row(
        "file systems",
        _of(
            "runner/preflight/test_filesystem",
            "row_49_what_is_unusual_is_named_with_its_consequence",
        ),
        "by the names of the mounts; no network file system is mounted by a test",
    ),
    50: Row(
        "journal torn, damaged, another's",
        (
            *_of(
                "runner/rundir/test_journal",
                "row_50_any_torn_tail_is_dropped_and_cut_off_at_the_next_start",
            ),
            *_of(_HOSTILE, "row_50_the_journal_of_another_run_is_refused"),
        ),
    ),
    51: Row("no checkpoint", _of(_HOSTILE, "row_51_bytes_of_any_kind_are_no_checkpoint")),
    52: Row(
        "truncated",
        (
            *_of(_FILE, "row_52_truncation_and_padding_are_detected"),
            *_of("durability/test_damage", "row_52_every_length_of_every_file"),
        ),
    ),
    53: Row(
        "one byte",
        (
            *_of(
                _FILE,
                "row_53_any_changed_byte_is_found_by_header_or_manifest",
            ),
            *_of("durability/test_damage", "row_53_every_byte_of_every_file"),
        ),
    ),
    54: Row(
        "of another run",
        _of(_HOSTILE, "row_54_the_checkpoints_of_another_run_are_refused"),
    ),
    55: Row(
        "links out of the file",
        _of(
            _FILE,
            "rows_55_and_56_structures_of_hdf5_are_never_followed",
        ),
    ),
    56: Row(
        "loops",
        _of(
            _FILE,
            "rows_55_and_56_structures_of_hdf5_are_never_followed",
        ),
    ),
    57: Row(
        "bombs", _of(_HOSTILE, "rows_57_and_58_a_sealed_file_that_jobrun_never_writes_is_refused")
    ),
    58: Row(
        "odd types",
        _of(_HOSTILE, "rows_57_and_58_a_sealed_file_that_jobrun_never_writes_is_refused"),
    ),
    59: Row(
        "not a number",
        _of(_FILE, "row_59_what_is_not_a_number_is_kept"),
    ),
    60: Row(
        "a file that its reader dies of",
        _of(
            "tools/test_inspection",
            "row_60_the_readers_death_is_not_ours",
            "row_60_a_reader_that_does_not_end_is_ended",
        ),
        "the reader has no network to be cut from; it opens no other file than this one",
    ),
    61: Row(
        "control characters",
        _of(_HOSTILE, "row_61_control_characters_in_a_name_do_not_reach_the_terminal"),
    ),
    62: Row(
        "newer format",
        _of(_FILE, "row_62_another_format_is_refused_with_both_versions"),
    ),
    63: Row(
        "all damaged",
        _of(_HOSTILE, "row_63_when_nothing_is_good_each_reason_is_given_and_nothing_starts_over"),
    ),
    64: Row(
        "newest damaged",
        _of(
            _HOSTILE, "rows_40_to_54_a_damaged_newest_epoch_is_reported_and_the_one_before_is_used"
        ),
    ),
    65: Row("epoch gone", _of(_DIRECTORY, "row_65_an_epoch_that_is_gone_needs_the_users_word")),
    66: Row("odd results", _of("runtime/callables/test_call", "what_does_not_fit_is_refused")),
    67: Row(
        "keeps a reference",
        _of(
            "runtime/callables/test_call",
            "a_result_that_others_can_see_is_copied",
            "what_is_kept_of_an_inout_array_is_cut_off",
        ),
    ),
    68: Row(
        "sys.exit, os._exit, segfault",
        (
            *_of(
                _ENDS,
                "row_68_any_end_of_the_process_is_reported_and_loses_nothing",
                "row_68_sys_exit_is_a_failure_of_the_callable",
                "row_68_the_copy_of_a_callable_that_forks_does_not_continue_the_run",
                "row_68_a_thread_that_was_left_running_does_not_hold_the_process",
            ),
            *_of("tools/prove/test_trials", "a_job_that_fails_by_itself_cannot_be_proven"),
        ),
    ),
    69: Row(
        "endless, deaf",
        (
            *_of("runtime/test_task_limits", "a_task_that_takes_too_long_fails_the_group"),
            *_of(
                "session/threads/test_session",
                "a_callable_that_outlives_the_limit_of_its_task_is_stuck",
            ),
            *_of(
                _ENDS,
                "row_69_a_task_that_cannot_be_ended_ends_its_process_after_its_limit",
                "row_69_a_program_that_ignores_sigterm_is_killed",
                "row_69_code_that_keeps_the_interpreter_is_ended_by_the_second_signal",
            ),
            *_of("cli/test_supervisor", "a_task_is_overdue_some_time_after_its_end"),
            *_of(
                "session/processes/test_group_run",
                "silent_node_is_killed_after_the_limit_of_its_task",
            ),
        ),
        "a thread cannot be killed: the process ends, without another save",
    ),
    70: Row(
        "memory hog",
        (
            *_of(
                "runner/preflight/test_memory",
                "row_23_state_larger_than_memory_is_a_fault_with_its_size",
            ),
            *_of(
                _ENDS,
                "row_70_a_memory_limit_is_reported_with_the_location",
                "row_70_an_out_of_memory_kill_is_reported",
            ),
        ),
    ),
    71: Row(
        "time, hash order",
        _of(
            "tools/prove/test_proof",
            "a_job_that_is_not_repeatable_is_reported_before_any_kill",
        ),
    ),
    72: Row(
        "10 GB of output",
        _of("runner/rundir/test_logs", "row_72_a_talkative_task_does_not_fill_the_disk"),
    ),
    73: Row(
        "changes the process",
        (
            *_of(
                "session/threads/test_session",
                "the_callers_way_with_floating_point_errors_comes_back",
            ),
            *_of(
                "runtime/steps/test_restore_process_state",
                "row_73_process_state_that_a_task_changes_is_restored_and_reported_once",
            ),
            *_of(_ENDS, "row_73_a_callable_that_changes_the_process_changes_nothing_else"),
        ),
        "what a callable changes is put back when its group has run; until then the tasks beside "
        "it share it, as they share the process",
    ),
    74: Row(
        "import error",
        _of(
            "runner/preflight/test_checks",
            "row_74_an_import_error_is_found_when_imports_are_asked_for",
        ),
    ),
    75: Row(
        "127, 126, 128 + n", _of("runtime/steps/test_run_program", "codes_and_signals_are_named")
    ),
    76: Row(
        "no output file",
        _of("runtime/steps/test_run_program", "a_result_that_was_not_written_is_an_error"),
    ),
    77: Row(
        "grandchildren",
        (
            *_of(
                "runtime/steps/test_run_program",
                "processes_that_a_program_leaves_behind_are_killed",
            ),
            *_of("runtime/steps/test_output", "a_background_process_does_not_hold_the_step"),
            *_of(_DIRECTORY, "row_82_no_program_outlives_the_run"),
            *_of(_ENDS, "row_77_what_has_a_session_of_its_own_ends_with_the_run"),
        ),
    ),
    78: Row(
        "holes in commands",
        _of("runtime/steps/test_run_program", "holes_are_filled_into_the_command"),
    ),
    79: Row(
        "reads stdin",
        _of("runtime/steps/test_run_program", "a_program_runs_in_the_specs_folder_without_input"),
    ),
    80: Row(
        "SIGKILL, twice",
        (
            *_of(
                _FAULTS,
                "row_80_killed_before_and_after_every_call_the_run_loses_nothing",
                "row_80_killed_and_killed_again_at_every_call_of_the_resume",
            ),
            *_of("runner/test_invocation", "row_80_killed_again_and_again_it_still_ends_the_same"),
            *_of("durability/test_kills", "hundreds_of_kills_lose_nothing"),
            *_of(_ENDS, "row_80_who_is_killed_holds_nothing_that_a_resume_at_once_would_meet"),
        ),
    ),
    81: Row(
        "power cut",
        (
            *_of(_FAULTS, "row_81_all_that_a_promise_rests_on_is_synced_before_it_is_made"),
            *_of(
                "durability/test_explorer",
                "row_81_no_power_cut_loses_what_was_saved",
                "each_wrong_protocol_is_caught",
            ),
            *_of(
                "durability/test_cuts",
                "row_81_no_real_power_cut_loses_what_was_saved",
                "power_cut_loses_unsynced_data",
            ),
        ),
        "the real ones where a file system may be mounted and shut down; 'make prove' tells",
    ),
    82: Row(
        "signals",
        (
            *_of(
                "runner/test_invocation",
                "row_82_the_first_signal_lets_the_epoch_end_and_saves_it",
                "row_82_second_signal_drops_the_epoch_immediately",
            ),
            *_of(
                "runner/test_stop_requests",
                "many_signals_make_one_request",
                "row_82_a_signal_before_the_loop_ends_the_process_in_good_order",
            ),
            *_of(_ENDS, "row_82_a_signal_is_one_request_whichever_process_gets_it"),
        ),
    ),
    83: Row(
        "clock jumps", _of(_DIRECTORY, "row_83_a_wall_clock_that_jumps_by_days_changes_nothing")
    ),
    84: Row(
        "lost hosts",
        (
            *_of(
                "e2e/test_sessions",
                "a_node_that_is_killed_costs_an_epoch_and_no_bit",
                "nodes_that_are_lost_again_and_again_end_the_command_and_resume_continues",
                "nodes_end_with_their_master_and_the_run_continues_later",
            ),
            *_of(
                "session/processes/test_group_run",
                "lost_node_error_takes_precedence_over_its_consequences",
                "unresponsive_node_is_killed",
            ),
        ),
        "all nodes are processes of one machine: there is no network that could be cut, and the "
        "lock of the run keeps a second master out",
    ),
    85: Row(
        "pid reuse",
        _of("runner/rundir/test_lock", "invalid_lock_file_content_is_ignored"),
    ),
}
