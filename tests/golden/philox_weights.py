"""Weights that are not stored: element i of parameter number k is a draw of Philox4x32-10, as in the tests in C++."""
import numpy

SEED = 20240601


def philox_first_words(count, stream):
    """Word 0 of the block with counter (i, 0, stream, 0), for i < count."""
    c = [numpy.arange(count, dtype=numpy.uint64), numpy.zeros(count, numpy.uint64),
         numpy.full(count, stream, numpy.uint64), numpy.zeros(count, numpy.uint64)]
    k0, k1, mask = SEED, 0, numpy.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = numpy.uint64(0xD2511F53) * c[0], numpy.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> numpy.uint64(32)) ^ c[1] ^ numpy.uint64(k0), p1 & mask,
             (p0 >> numpy.uint64(32)) ^ c[3] ^ numpy.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c[0]


def weight(name, count, stream):
    centred = 2 * (philox_first_words(count, stream) >> numpy.uint64(8)).astype(float) * 2.0**-24 - 1
    is_norm = (".ln_" in name or "norm" in name) and name.endswith("weight")
    return 1 + 0.25 * centred if is_norm else 0.5 * centred
