/* Digests: what is not what was written is never opened, and what changes later is found. */
#include "weights/proof.h"

#include "base/err.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the module ---- */

TEST(proof_walk_finds_every_block) {
    const size_t lengths[] = {0, 1, PROOF_BLOCK - 1, PROOF_BLOCK, PROOF_BLOCK + 1, 3 * PROOF_BLOCK + 5};
    unsigned char *data = xcalloc(4, PROOF_BLOCK);
    for (size_t i = 0; i < COUNTOF(lengths); i++) {
        char hex[SHA256_HEX], want[SHA256_HEX];
        Sha256 s;
        ProofWalk w = {0};
        size_t n = lengths[i];
        Proof *p = proof_make(data, n);
        sha256_init(&s);
        sha256_add(&s, data, n);
        sha256_hex(&s, want);
        proof_hex(p, hex);
        CHECK_MSG(!strcmp(hex, want), "%zu bytes: %s, not %s", n, hex, want);
        CHECK(proof_holds(p) && proof_holds(p));
        for (size_t b = 0; b < 3 * p->n_blocks; b++) CHECK(proof_walk_step(&w, p));
        for (size_t at = 0; at < n; at += PROOF_BLOCK / 2 + 1) {
            size_t steps = 0;
            data[at] ^= 16;
            w = (ProofWalk){0};
            while (proof_walk_step(&w, p)) steps++;
            CHECK_MSG(steps == at / PROOF_BLOCK && !proof_holds(p), "byte %zu of %zu: step %zu", at, n, steps);
            data[at] ^= 16;
        }
        CHECK(proof_holds(p));
        proof_free(p);
    }
    free(data);
}

/* ---- a file that was opened ---- */

static const char *checkpoint_file(void) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir();
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    return test_text("%s/model.safetensors", dir);
}

/* Flips a bit of the last byte and puts the times back, as far as that goes. */
static void flip_quietly(const char *path) {
    struct stat st;
    char byte;
    usleep(20000); /* times of files may be as coarse as the kernel's tick */
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && pread(fd, &byte, 1, st.st_size - 1) == 1);
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, st.st_size - 1) == 1);
    CHECK(futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim}) == 0);
    close(fd);
}

TEST(proof_restored_times_hide_nothing) {
    const char *path = checkpoint_file();
    char other[300];
    SafeFile f;
    REQUIRE(safe_open(&f, path, NULL) == 0 && safe_intact(&f));
    usleep(20000);
    CHECK(chmod(path, 0640) == 0 && safe_intact(&f)); /* harmless */
    snprintf(other, sizeof other, "%s.link", path);
    CHECK(link(path, other) == 0 && unlink(path) == 0 && rename(other, path) == 0 && safe_intact(&f));
    flip_quietly(path);
    CHECK(!safe_intact(&f));
    flip_quietly(path);
    CHECK(!safe_intact(&f)); /* somebody may have computed from it meanwhile */
    safe_close(&f);
    REQUIRE(safe_open(&f, path, NULL) == 0);
    CHECK(unlink(path) == 0 && safe_intact(&f)); /* replaced, as it should be */
    safe_close(&f);
}

TEST(proof_sealed_copy) {
    const char *path = checkpoint_file();
    SafeFile f, g;
    size_t n;
    char *file = test_read_file(path, &n);
    REQUIRE(safe_open_copy(&f, path, NULL) == 0 && safe_open_copy(&g, path, NULL) == 0);
    flip_quietly(path);
    CHECK(safe_intact(&f) && f.map_bytes == n && !memcmp(f.map, file, n));
    CHECK(truncate(path, 10) == 0);
    CHECK(safe_intact(&f) && !memcmp(f.map, file, n));
    CHECK(pwrite(f.guard.fd, "x", 1, 0) == -1 && ftruncate(f.guard.fd, 1) == -1 &&
          ftruncate(f.guard.fd, 1 << 30) == -1);
    CHECK(mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, f.guard.fd, 0) == MAP_FAILED);
    safe_close(&f);
    safe_close(&g);
    CHECK(safe_open_copy(&f, path, NULL) == -1);
    free(file);
}

/* A copy that there is no room for is none, and says why. */
TEST(proof_sealed_copy_that_does_not_fit) {
    const char *path = checkpoint_file();
    struct rlimit old, small;
    SafeFile f;
    Err err;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){.rlim_cur = 100, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = safe_open_copy(&f, path, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    CHECK_MSG(rc == -1 && strstr(err.msg, path) && strstr(err.msg, test_text("bytes into memory: %s", strerror(EFBIG))),
              "%s", rc ? err.msg : "it fits");
}

/* ---- numbers that are none ---- */

TEST(proof_no_nan_is_opened) {
    static const uint32_t wild[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001};
    static const uint32_t tame[] = {0x7f7fffff, 0xff7fffff, 0, 1};
    static const Dtype dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    const char *dir = test_dir();
    const char *path = test_text("%s/x", dir);
    for (size_t d = 0; d < COUNTOF(dtypes); d++)
        for (size_t i = 0; i < 2 * COUNTOF(wild); i++) {
            uint32_t bits = i % 2 ? wild[i / 2] : tame[i / 2], x[6] = {0};
            uint16_t halves[6] = {0};
            x[4] = bits;
            halves[4] =
                (uint16_t)(dtypes[d] == DTYPE_BF16 ? bits >> 16 : (bits >> 16 & 0x8000) | (bits >> 13 & 0x7fff));
            if (bits == 0x7f800001) halves[4] |= 1;
            SafeOut out = {.name = "some.weight", .dtype = dtypes[d], .source = dtypes[d], .n_dims = 2, .dims = {3, 2}};
            out.data = dtypes[d] == DTYPE_F32 ? (void *)x : halves;
            SafeFile f;
            Err err = {""};
            REQUIRE(safe_save(path, &out, 1, 0, NULL) == 0);
            int rc = safe_open(&f, path, &err);
            if (i % 2)
                CHECK_MSG(rc && strstr(err.msg, "x: some.weight holds NaN or infinity, first at element 4 of 6"),
                          "%s %08x: %s", dtype_name(dtypes[d]), bits, err.msg);
            else
                CHECK_MSG(rc == 0, "%s %08x: %s", dtype_name(dtypes[d]), bits, err.msg);
            if (rc == 0) safe_close(&f);
        }
}

TEST(proof_nothing_is_rounded_to_infinity) {
    static const float x[4] = {1, 3.38e38f, -3.4e38f, 0};
    SafeOut out = {
        .name = "some.weight", .dtype = DTYPE_BF16, .source = DTYPE_F32, .n_dims = 1, .dims = {4}, .data = x};
    const char *dir = test_dir();
    Err err = {""};
    const char *path = test_text("%s/x", dir);
    CHECK(safe_save(path, &out, 1, 0, &err) == -1 && access(path, F_OK));
    CHECK_MSG(!strcmp(err.msg, "some.weight holds -3.4e+38 at element 2, which BF16 cannot"), "%s", err.msg);
    out.dims[0] = 2;
    CHECK_MSG(safe_save(path, &out, 1, 0, &err) == 0, "%s", err.msg);
}

/* ---- terminals ---- */

/* A name with C1's "start of a sequence" in it, and a step with escapes. */
TEST(weights_tool_shows_no_control_characters) {
    static const char header[] =
        "{\"__metadata__\":{\"step\":\"\\u001b[31m\\u009b\\u007f\"},\"a\\u009b31m\":{\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]}}";
    Config cfg = test_checkpoint_config();
    const char *dir = test_config_folder(&cfg);
    char out[4096], path[256], file[8 + sizeof header - 1 + 4] = {0};
    static const char *const commands[] = {"inspect %s", "verify %s", "import %s %s/new"};
    file[0] = (char)(sizeof header - 1);
    memcpy(file + 8, header, sizeof header - 1);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    test_write_file(path, file, sizeof file);
    for (size_t i = 0; i < COUNTOF(commands); i++) {
        CHECK(test_run_tool(test_text(commands[i], dir, dir), out) == 1 && strstr(out, "noised-weights: "));
        for (const char *p = out; *p; p++)
            CHECK_MSG(*p == '\n' || ((unsigned char)*p >= ' ' && *p != 0x7f), "%s: byte %d", commands[i], *p);
        CHECK_MSG(!strstr(out, "\xC2\x9B"), "%s: C1", commands[i]);
    }
    SafeFile f;
    REQUIRE(safe_open(&f, path, NULL) == 0);
    CHECK_MSG(!strcmp(f.metadata_step, "?[31m??"), "%s", f.metadata_step);
    safe_close(&f);
}
