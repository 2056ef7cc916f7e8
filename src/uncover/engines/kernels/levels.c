/* The sources that the library was made of, and the instruction sets of this processor. */

#include "common.h"

VISIBLE const char *uncover_sources(void) { return SOURCES; }

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>

/* Registers that the operating system keeps: bits of XCR0. */
static unsigned kept_registers(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* Levels of x86-64: 2 has SSE4.2, 3 has AVX2 and FMA, 4 has AVX-512; 1 is too old. */
VISIBLE int uncover_level(void) {
    unsigned a, b, c, d, more, has_avx, has_avx512;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_2)) return 1;
    more = c;
    if (!(more & bit_OSXSAVE) || !(more & bit_AVX) || !(more & bit_FMA)) return 2;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 2;
    has_avx = (kept_registers() & 0x6) == 0x6 && (b & bit_AVX2) && (b & bit_BMI) && (b & bit_BMI2);
    has_avx512 = (kept_registers() & 0xE6) == 0xE6 && (b & bit_AVX512F) && (b & bit_AVX512DQ) &&
                 (b & bit_AVX512BW) && (b & bit_AVX512VL);
    return !has_avx ? 2 : has_avx512 ? 4 : 3;
}
#else
VISIBLE int uncover_level(void) { return 0; }
#endif
