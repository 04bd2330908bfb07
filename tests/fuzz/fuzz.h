/* fuzz: a target is a function of bytes that may be any. Whatever they are, its CHECKs hold, nothing crashes, leaks or
 * hangs.
 *
 *     static void look(const uint8_t *data, size_t n) { ... }
 *     TEST(fuzz_name) { fuzz_run("name", look); }
 *
 * In build/run-tests that is a test: it runs the target once over each file of tests/fuzz/corpus/name, what libFuzzer
 * found worth keeping, and of tests/fuzz/found/name, what once broke it. build-fuzz/fuzz-name is libFuzzer over the
 * same function (`make fuzz`). */
#ifndef NOISED_FUZZ_H
#define NOISED_FUZZ_H

#include "tests/support/test.h"

void fuzz_run(const char *name, void (*target)(const uint8_t *data, size_t n));

/* What is left of an input that is taken piece by piece. */
typedef struct FuzzInput {
    const uint8_t *at;
    size_t left;
} FuzzInput;

int fuzz_byte(FuzzInput *in);             /* 0 behind the end */
uint32_t fuzz_u32(FuzzInput *in);         /* four of them, little-endian */
int fuzz_below(FuzzInput *in, int limit); /* 0 .. limit - 1, of one byte; limit at most 256 */
float fuzz_float(FuzzInput *in);          /* any bits: infinities and NaNs too */

/* Up to the next byte `end`, which is taken too, or all that is left: malloc'ed, NUL-terminated behind *n bytes. */
char *fuzz_until(FuzzInput *in, uint8_t end, size_t *n);
char *fuzz_rest(FuzzInput *in, size_t *n);

/* One path per name for the life of the process, below the system's temporary folder, now with these bytes. */
const char *fuzz_file(const char *name, const void *data, size_t n);
const char *fuzz_folder(void); /* where those files are */
void fuzz_remove(const char *name);

#endif
