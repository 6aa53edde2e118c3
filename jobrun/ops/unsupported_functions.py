"""List the functions of numpy that expressions do not have, each with the reason.

The list is complete: a public function of numpy, numpy.linalg or numpy.fft is an operator or
is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping

_REASONS: dict[str, str] = {
    "it calls a Python function for each item; use whole arrays, or a call step": (
        "apply_along_axis apply_over_axes frompyfunc fromfunction piecewise vectorize fromiter"
    ),
    "it reads or writes files; use load and save": (
        "fromfile fromregex genfromtxt load loadtxt memmap save savetxt savez savez_compressed"
    ),
    "it looks at memory from outside; blobs own their memory": (
        "asarray asarray_chkfinite ascontiguousarray asanyarray asfortranarray frombuffer "
        "from_dlpack may_share_memory ndarray require shares_memory nditer "
        "nested_iters ndenumerate ndindex flatiter broadcast broadcast_arrays "
    ),
    "what it gives is no function of anything": "empty empty_like",
    "it changes its argument in place; write x[i] = v, or where": (
        "copyto fill_diagonal place put put_along_axis putmask"
    ),
    "it has another name here, which numpy has too": (
        "acos acosh asin asinh atan atan2 atanh amax amin around asmatrix bitwise_invert "
        "bitwise_left_shift bitwise_not bitwise_right_shift concat conjugate cumulative_prod "
        "cumulative_sum degrees fix iscomplexobj isrealobj permute_dims pow radians rollaxis "
        "row_stack positive vecdot matvec vecmat block unstack hsplit vsplit "
        "dsplit unique_all unique_counts unique_inverse unique_values linalg.cross "
        "linalg.diagonal linalg.matmul linalg.matrix_norm linalg.matrix_transpose linalg.outer "
        "linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm linalg.svdvals"
    ),
    "a comparison, an index or two operators say it": (
        "append array_equiv broadcast_shapes iterable average extract insert iscomplex "
        "isfortran isneginf isposinf isreal isscalar ix_ mask_indices ndim "
        "real_if_close shape size sort_complex spacing tril_indices_from "
        "triu_indices_from trim_zeros diag_indices_from i0 bitwise_count indices "
    ),
    "it is about polynomials or windows; compute them in a call step": (
        "bartlett blackman hamming hanning kaiser poly poly1d polyadd polyder polydiv polyint "
        "polymul polysub roots"
    ),
    "it is rarely wanted; use a call step": (
        "gradient einsum_path histogram_bin_edges histogramdd linalg.multi_dot "
        "linalg.tensorinv linalg.tensorsolve packbits unpackbits fft.fftn fft.hfft fft.ifftn "
        "fft.ihfft fft.irfft2 fft.irfftn fft.rfft2 fft.rfftn common_type can_cast min_scalar_type "
        "mintypecode promote_types result_type isdtype issubdtype finfo iinfo typename"
    ),
    "it is about text or dates, of which arrays of blobs hold few": (
        "array2string array_repr array_str base_repr binary_repr busday_count busday_offset "
        "busdaycalendar datetime_as_string datetime_data format_float_positional "
        "format_float_scientific fromstring is_busday isnat"
    ),
    "it configures or describes numpy itself": (
        "errstate get_include get_printoptions getbufsize geterr geterrcall info printoptions "
        "set_printoptions setbufsize seterr seterrcall show_config show_runtime test"
    ),
    "it makes matrices, records or syntax of another kind of array": (
        "bmat dtype matrix recarray ufunc "
    ),
}

LEFT_OUT: Mapping[str, str] = {
    name: reason for reason, names in _REASONS.items() for name in names.split()
}
