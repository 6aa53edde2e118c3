"""List the conformance cases: jobs recorded on Caffe2, and how each comes out here.

Tables only. The names are those of the recorded cases. An outcome is one of

* ``same``: what was observed is what happens here;
* ``by rule N``: the observation is a wart, and rule N holds here instead;
* ``by design``: this is done another way here, which the test's docstring tells;
* ``not yet``: the spec language has it, and ``validate`` refuses it in a sentence;
* ``not applicable``: there is nothing here that it could be about.
"""

from __future__ import annotations

# The rules that hold where the observation is a wart; the numbers are those of the warts.
RULES: dict[int, str] = {
    2: "nodes and their properties are declared once; a contradiction is an error",
    3: "names come from the spec, and two things of one name are refused",
    4: "kinds of workspaces are compared for all tasks at once, before anything runs",
    5: "compiling and asking use nothing up; each task that wants set-up gets it",
    6: "outputs are those that are declared, taken when the task ends",
    7: "errors are raised to the caller, and what runs beside is stopped at its next step",
    8: "one cancel scope for the whole run of a group",
    10: "one report always starts after the end; its node is checked before the start",
    12: "a stop in a plain body leaves the body",
    14: "a failed save fails the run, or is told and counted where the spec says so",
    16: "what cannot be saved is found in init, and named",
    17: "a finished job runs no further epoch when it is resumed",
    18: "a resume needs a checkpoint, and tells which epoch was chosen, and why",
    19: "a partial load tells for each name where it was found, and loads all or nothing",
    20: "random numbers go on as they would have",
    21: "a node's file holds that node's blobs; one rule names all files",
    22: "saving adds nothing to what is saved",
    23: "writers of a queue are counted, and nothing is written after its close",
    24: "no limit is written by leaving it out, and a limit of 0 reads nothing",
    26: "a stop condition is a bool",
    30: "a job says how it ends",
}

CASES: dict[str, str] = {
    "001_group_private_vs_global": "same",
    "002_private_tasks_same_name": "same",
    "004_output_blob_lives_in_session": "by rule 6",
    "005_global_group_keeps_everything": "by design",
    "007_session_run_type_argument": "by rule 4",
    "011_task_without_output_gets_one": "by rule 6",
    "012_task_names": "by rule 3",
    "014_setup_order_single": "same",
    "015_setup_order_instances": "same",
    "017_setupnets_two_nets_one_task": "same",
    "018_setupnets_two_tasks": "by rule 5",
    "021_setup_test_values": "same",
    "023_tasks_by_node_rules": "by rule 5",
    "024_node_kwargs_merge": "by rule 2",
    "025_reprs": "not applicable: printed forms of Caffe2's own classes",
    "026_report_step_at_least_once": "same",
    "028_task_reporter_order": "same",
    "031_report_on_node_without_tasks": "by rule 10",
    "032_report_step_failing": "by rule 8",
    "034_instances_run_concurrently": "by design",
    "035_concurrent_instances_times_substeps": "same",
    "037_fail_raises_in_concurrent_default": "by rule 7",
    "039_fail_false_straight_line_sibling": "by rule 7",
    "040_single_task_raise": "by design",
    "042_fail_unblocks_queue_reader": "by rule 7",
    "044_python_op_instances": "same",
    "045_multi_instance_counters": "same",
    "046_loop_stop_if_guard": "by design",
    "047_nested_loops_blob_count": "same",
    "049_loop_iter_rerun_reset": "same",
    "052_stop_in_task_body_repeats": "by rule 12",
    "054_should_stop_blob_semantics": "by design",
    "056_net_used_twice": "same",
    "058_if_net_scopes": "same",
    "059_while_net": "same",
    "061_output_kinds": "by design",
    "063_checkpoint_resume_every_epoch": "by rule 17",
    "064_checkpoint_resume_multinode_manager": "by rule 17",
    "065_reuse_manager_and_session": "by rule 17",
    "066_what_is_checkpointed": "by rule 6",
    "067_global_blob_count_known": "by rule 22",
    "069_checkpoint_file_names": "by rule 21",
    "071_no_checkpoint_manager": "by rule 18",
    "073_metadata_handler_failures": "by rule 14",
    "074_unsavable_blob_kills_checkpoint": "by rule 16",
    "077_no_stop_condition": "by rule 30",
    "079_epoch_limiter_values": "by rule 17",
    "081_metadata_last_epoch_decides": "by rule 18",
    "083_multinode_files_in_local_session": "by rule 21",
    "084_upload_group": "same",
    "085_download_group": "same",
    "086_stop_condition_kinds": "by rule 26",
    "088_three_stage_pipeline": "same",
    "089_dequeue_many": "same",
    "090_reader_limit_table": "by rule 24",
    "093_reader_runtime_thread_counters": "same",
    "094_time_limit_reader": "same",
    "096_count_reader": "same",
    "099_queue_close_semantics": "by rule 23",
    "102_pipe_threads": "by design",
    "103_pipe_outputs": "same",
    "105_schema_records": "not applicable: there is no record type; a record is named fields",
    "109_random_state_not_checkpointed": "by rule 20",
    "111_report_running_when_tasks_end": "by rule 10",
    "113_report_step_changes_failure_mode": "by rule 7",
    "116_partial_load_single_manager": "by rule 19",
    "117_missing_input_is_found_before_running": "same",
    "119_names_depend_on_process_history": "by rule 3",
}

# For each feature of a ``not yet``: keys of a spec that use it and nothing else that is pending.
PENDING: dict[str, str] = {}
