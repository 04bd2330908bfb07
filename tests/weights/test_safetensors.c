#include "base/atomic_file.h"
#include "base/files.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/support/test.h"
#include "weights/safetensors.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char *path_in(const char *dir, const char *name) { return xstrdup(test_text("%s/%s", dir, name)); }

static void put(const char *path, const char *header, size_t n_header, uint64_t length, size_t n_data) {
    char *file = xcalloc(1, 8 + n_header + n_data + 1);
    for (int i = 0; i < 8; i++) file[i] = (char)(length >> 8 * i);
    memcpy(file + 8, header, n_header);
    test_write_file(path, file, 8 + n_header + n_data);
    free(file);
}

static const float numbers[6] = {0, 1, -2.5f, 3, 1e-3f, 65504};
static const uint16_t halves[2] = {0x3C00, 0xC000};
static const int8_t bytes[3] = {-1, 2, 127};

#define X63 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LONGEST "h ~" X63 X63 X63 X63 /* 255 bytes */

/* Given out of order: the file must be in order of names all the same. */
static const SafeOut good[] = {
    {.name = "w", .dtype = DTYPE_F32, .source = DTYPE_F32, .n_dims = 2, .dims = {2, 3}, .data = numbers},
    {.name = "b", .dtype = DTYPE_BF16, .source = DTYPE_F32, .n_dims = 1, .dims = {6}, .data = numbers},
    {.name = LONGEST, .dtype = DTYPE_F16, .source = DTYPE_F16, .n_dims = 1, .dims = {2}, .data = halves},
    {.name = "a", .dtype = DTYPE_F32, .source = DTYPE_F16, .n_dims = 1, .dims = {2}, .data = halves},
    {.name = "z", .dtype = DTYPE_I8, .source = DTYPE_I8, .n_dims = 1, .dims = {3}, .data = bytes},
};

TEST(safetensors_round_trip) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x.safetensors");
    SafeFile f;
    Err err;
    REQUIRE(safe_save(path, good, COUNTOF(good), 42, &err) == 0);
    REQUIRE(safe_open(&f, path, &err) == 0);
    CHECK(f.n == COUNTOF(good) && safe_header_bytes(&f) % 64 == 0);
    CHECK(f.metadata_step && !strcmp(f.metadata_step, "42"));
    for (int i = 1; i < f.n; i++) CHECK(strcmp(f.tensors[i - 1].name, f.tensors[i].name) < 0);
    CHECK((const char *)f.tensors[0].data == (const char *)f.map + safe_header_bytes(&f));
    const SafeTensor *w = safe_find(&f, "w"), *b = safe_find(&f, "b"), *a = safe_find(&f, "a"), *z = safe_find(&f, "z");
    REQUIRE(w && a && b && z && !safe_find(&f, "c") && !safe_find(&f, ""));
    CHECK(w->n_dims == 2 && w->dims[0] == 2 && w->dims[1] == 3 && w->bytes == sizeof numbers);
    CHECK(!memcmp(w->data, numbers, sizeof numbers) && !memcmp(z->data, bytes, sizeof bytes));
    for (int i = 0; i < 6; i++) CHECK(((const uint16_t *)b->data)[i] == f32_to_bf16(numbers[i]));
    CHECK(a->dtype == DTYPE_F32 && ((const float *)a->data)[0] == 1 && ((const float *)a->data)[1] == -2);
    safe_close(&f);
    safe_close(&f); /* closing twice is harmless */
    free(path);
}

/* Early writers left the header unpadded, as gpt2's own file is: its tensors begin anywhere, and are copied. */
TEST(safetensors_of_a_header_without_padding) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x.safetensors");
    REQUIRE(safe_save(path, good, COUNTOF(good), 42, NULL) == 0);
    size_t n;
    char *whole = test_read_file(path, &n);
    for (size_t more = 1; more <= 5; more++) {
        SafeFile f;
        Err err = {""};
        char *longer = xcalloc(1, n + more);
        uint64_t header = 0;
        memcpy(&header, whole, 8);
        memcpy(longer, whole, 8 + header);
        memset(longer + 8 + header, ' ', more);
        memcpy(longer + 8 + header + more, whole + 8 + header, n - 8 - header);
        memcpy(longer, &(uint64_t){header + more}, 8);
        test_write_file(path, longer, n + more);
        int rc = safe_open(&f, path, &err);
        CHECK_MSG(rc == 0, "%zu more: %s", more, err.msg);
        if (rc == 0) {
            const SafeTensor *w = safe_find(&f, "w"), *z = safe_find(&f, "z");
            CHECK((uintptr_t)w->data % 4 == 0 && !memcmp(w->data, numbers, sizeof numbers));
            CHECK(!memcmp(z->data, bytes, sizeof bytes));
            safe_close(&f);
        }
        free(longer);
    }
    free(whole);
    free(path);
}

/* The digest in the header is that of the data, for any mix of copied and converted tensors. */
TEST(safetensors_digest) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x");
    for (size_t n_tensors = 0; n_tensors <= COUNTOF(good); n_tensors++) {
        SafeFile f;
        Sha256 s;
        char hex[65];
        size_t n;
        REQUIRE(safe_save(path, good, (int)n_tensors, 42, NULL) == 0 && safe_open(&f, path, NULL) == 0);
        size_t header = safe_header_bytes(&f);
        char *file = test_read_file(path, &n);
        sha256_init(&s);
        sha256_add(&s, file + header, n - header);
        sha256_hex(&s, hex);
        CHECK_MSG(f.metadata_sha256 && !strcmp(f.metadata_sha256, hex), "%zu: %s", n_tensors, hex);
        safe_close(&f);
        free(file);
    }
    free(path);
}

TEST(safetensors_masks) {
    static const char header[] = "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,7]},"
                                 "\"c\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[7,8]}}";
    const char *dir = test_dir();
    char *path = path_in(dir, "x");
    SafeFile f;
    put(path, header, strlen(header), strlen(header), 8);
    REQUIRE(safe_open(&f, path, NULL) == 0 && f.n == 3);
    CHECK(f.tensors[0].is_mask && f.tensors[1].is_mask && !f.tensors[2].is_mask && f.tensors[1].bytes == 3);
    safe_close(&f);
    free(path);
}

/* In order of names "b" would begin at byte 6, and "d" at one of 17. */
TEST(safetensors_odd_sizes_leave_nothing_misaligned) {
    static const SafeOut odd[] = {
        {.name = "a", .dtype = DTYPE_BF16, .source = DTYPE_F32, .n_dims = 1, .dims = {3}, .data = numbers},
        {.name = "b", .dtype = DTYPE_F32, .source = DTYPE_F32, .n_dims = 1, .dims = {2}, .data = numbers},
        {.name = "c", .dtype = DTYPE_I8, .source = DTYPE_I8, .n_dims = 1, .dims = {3}, .data = bytes},
        {.name = "d", .dtype = DTYPE_BF16, .source = DTYPE_F32, .n_dims = 1, .dims = {2}, .data = numbers + 1},
    };
    const SafeOut shuffled[] = {odd[2], odd[3], odd[1], odd[0]};
    const char *dir = test_dir();
    char *one = path_in(dir, "1"), *two = path_in(dir, "2");
    SafeFile f;
    size_t n1, n2;
    Err err;
    REQUIRE(safe_save(one, odd, COUNTOF(odd), 1, NULL) == 0 && safe_save(two, shuffled, COUNTOF(odd), 1, NULL) == 0);
    char *x = test_read_file(one, &n1), *y = test_read_file(two, &n2);
    CHECK(n1 == n2 && !memcmp(x, y, n1));
    int rc = safe_open(&f, one, &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    REQUIRE(rc == 0 && f.n == COUNTOF(odd));
    const unsigned char *data = f.tensors[1].data;
    CHECK(data == (const unsigned char *)f.map + safe_header_bytes(&f) && !memcmp(data, numbers, 8));
    CHECK((const unsigned char *)f.tensors[0].data == data + 8 &&
          (const unsigned char *)f.tensors[3].data == data + 14);
    CHECK((const unsigned char *)f.tensors[2].data == data + 18 && !memcmp(data + 18, bytes, 3));
    safe_close(&f);
    free(x);
    free(y);
    free(one);
    free(two);
}

TEST(safetensors_equal_contents_equal_bytes) {
    const char *dir = test_dir();
    char *one = path_in(dir, "1"), *two = path_in(dir, "2"), *temp = path_in(dir, "1.tmp");
    SafeOut reversed[COUNTOF(good)];
    size_t n1, n2;
    for (size_t i = 0; i < COUNTOF(good); i++) reversed[i] = good[COUNTOF(good) - 1 - i];
    REQUIRE(safe_save(one, good, COUNTOF(good), 1, NULL) == 0 && safe_save(two, reversed, COUNTOF(good), 1, NULL) == 0);
    char *x = test_read_file(one, &n1), *y = test_read_file(two, &n2);
    CHECK(n1 == n2 && !memcmp(x, y, n1));
    CHECK(access(temp, F_OK) == -1);
    free(x);
    free(y);
    free(one);
    free(two);
    free(temp);
}

/* ---- files that must be refused ---- */

#define A(rest) "{\"a\":{\"dtype\":\"F32\"," rest "}}        "
#define GOOD_A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde" /* a digit short */

static const struct {
    const char *header;
    size_t n_data;
    const char *why;
} bad[] = {
    {"", 1, "begin with {"},
    {" {}", 0, "begin with {"},
    {"[]", 0, "begin with {"},
    {"{", 0, "not valid JSON"},
    {"{} x", 0, "behind the end"},
    {"{\"a\":1}", 0, "a: no object"},
    {"{\"a\":{}}", 0, "a: no dtype"},
    {"{\"a\":{\"dtype\":\"F32\"}}", 0, "a: no shape"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a: no dtype"},
    {A("\"shape\":[2]"), 8, "a: no data_offsets"},
    {A("\"data_offsets\":[0,8]"), 8, "a: no shape"},
    {A("\"shape\":[2],\"data_offsets\":[0,8],\"x\":1"), 8, "a: unknown key x"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "dtype is F64"},
    {"{\"a\":{\"dtype\":\"f32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype is f32"},
    {"{\"a\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype is no string"},
    {"{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8,
     "dtype is I64, must be F32, BF16, F16 or I8"},
    {"{\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype and shape want 2"},
    {A("\"shape\":2,\"data_offsets\":[0,8]"), 8, "shape is no array"},
    {A("\"shape\":{\"0\":2},\"data_offsets\":[0,8]"), 8, "shape is no array"},
    {A("\"shape\":[-2],\"data_offsets\":[0,8]"), 8, "no integer from 0"},
    {A("\"shape\":[1.5],\"data_offsets\":[0,8]"), 8, "no integer from 0"},
    {A("\"shape\":[\"2\"],\"data_offsets\":[0,8]"), 8, "no integer from 0"},
    {A("\"shape\":[null],\"data_offsets\":[0,8]"), 8, "no integer from 0"},
    {A("\"shape\":[2147483648],\"data_offsets\":[0,8]"), 8, "no integer from 0"},
    {A("\"shape\":[1,1,1,1,2],\"data_offsets\":[0,8]"), 8, "more than 4 dimensions"},
    {A("\"shape\":[[2]],\"data_offsets\":[0,8]"), 8, "nesting deeper than 3 at byte 29"},
    {A("\"shape\":[2147483647,2147483647,2147483647],\"data_offsets\":[0,8]"), 8, "shape overflows"},
    {A("\"shape\":[65536,65536,65536,65536],\"data_offsets\":[0,0]"), 0, "shape overflows"},
    {A("\"shape\":[2147483647,2147483647,1073741824,2],\"data_offsets\":[0,8]"), 8, "shape overflows"},
    {A("\"shape\":[2],\"data_offsets\":8"), 8, "two integers"},
    {A("\"shape\":[2],\"data_offsets\":[0]"), 8, "two integers"},
    {A("\"shape\":[2],\"data_offsets\":[0,8,8]"), 8, "two integers"},
    {A("\"shape\":[2],\"data_offsets\":[0,\"8\"]"), 8, "two integers"},
    {A("\"shape\":[2],\"data_offsets\":[-8,0]"), 8, "two integers"},
    {A("\"shape\":[2],\"data_offsets\":[0,8.5]"), 8, "two integers"},
    {A("\"shape\":[2],\"data_offsets\":[0,1e300]"), 8, "two integers"},
    {A("\"shape\":[2],\"data_offsets\":{\"a\":0,\"b\":8}"), 8, "two integers"},
    {A("\"shape\":[2],\"data_offsets\":[8,0]"), 8, "do not lie within"},
    {A("\"shape\":[4],\"data_offsets\":[0,16]"), 8, "do not lie within 8 bytes"},
    {A("\"shape\":[2],\"data_offsets\":[9007199254740984,9007199254740992]"), 8, "do not lie within"},
    {A("\"shape\":[3],\"data_offsets\":[0,8]"), 8, "span 8 bytes, dtype and shape want 12"},
    {A("\"shape\":[],\"data_offsets\":[0,8]"), 8, "span 8 bytes, dtype and shape want 4"},
    {A("\"shape\":[2,0],\"data_offsets\":[0,8]"), 8, "span 8 bytes, dtype and shape want 0"},
    {A("\"shape\":[2],\"data_offsets\":[0,8]"), 9, "the tensors end at 8, but the file has 9"},
    {A("\"shape\":[2],\"data_offsets\":[4,12]"), 12, "begins at 4, but the header ends at 0"},
    {"{" GOOD_A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16,
     "begins at 12, but a ends at 8"},
    {"{" GOOD_A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "begins at 4, but a ends at 8"},
    {"{" GOOD_A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "begins at 0, but"},
    {"{" GOOD_A "," GOOD_A "}", 8, "\"a\" occurs twice"},
    {"{" GOOD_A ",\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}}", 8, "\"a\" occurs twice"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "occurs twice"},
    {"{\"a\":{\"DTYPE\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "unknown key DTYPE"},
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "name has 0 bytes"},
    {"{\"" LONGEST "x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "name has 256 bytes"},
    {"{\"a\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "control character at byte 1"},
    {"{\"a\\u0000\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "NUL"},
    {"{\"\xff\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "UTF-8"},
    {"{\"__metadata__\":1}", 0, "__metadata__ is no object"},
    {"{\"__metadata__\":{\"step\":1}}", 0, "__metadata__.step is no string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "occurs twice"},
    {"{\"__metadata__\":{\"sha256\":\"\"}}", 0, "__metadata__.sha256 is \"\", must be 64 hexadecimal digits"},
    {"{\"__metadata__\":{\"sha256\":\"" DIGEST "\"}}", 0, "must be 64 hexadecimal digits"},
    {"{\"__metadata__\":{\"sha256\":\"" DIGEST "00\"}}", 0, "must be 64 hexadecimal digits"},
    {"{\"__metadata__\":{\"sha256\":\"" DIGEST "A\"}}", 0, "must be 64 hexadecimal digits"},
    {"{\"c\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}",
     9, "not a multiple of 4 as F32 needs"},
    {"{\"c\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[1,9]}} ",
     9, "not a multiple of 2 as BF16 needs"},
};

TEST(safetensors_bad_headers) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x.safetensors");
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        SafeFile f;
        Err err = {""};
        size_t n = strlen(bad[i].header);
        char padded[1024] = {0}; /* to a multiple of 8: the data is aligned unless a case says otherwise */
        snprintf(padded, sizeof padded, "%s%*s", bad[i].header, (int)((8 - n % 8) % 8), "");
        put(path, padded, strlen(padded), strlen(padded), bad[i].n_data);
        int rc = safe_open(&f, path, &err);
        CHECK_MSG(rc == -1 && strstr(err.msg, bad[i].why), "%s: %d, %s", bad[i].header, rc, err.msg);
        CHECK_MSG(rc == 0 || strstr(err.msg, "x.safetensors"), "%s", err.msg);
        if (rc == 0) safe_close(&f);
    }
    free(path);
}

TEST(safetensors_bad_lengths) {
    static const struct {
        uint64_t length;
        const char *why;
    } cases[] = {
        {3, "in a file of"},
        {8, "in a file of"},
        {UINT64_MAX, "at most"},
        {UINT64_MAX - 7, "at most"},
        {UINT64_MAX - 8, "at most"},
        {(uint64_t)1 << 63, "at most"},
        {SAFE_HEADER_MAX + 1, "at most"},
        {SAFE_HEADER_MAX, "in a file of"},
    };
    const char *dir = test_dir();
    char *path = path_in(dir, "x");
    SafeFile f;
    Err err;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        put(path, "{}", 2, cases[i].length, 0);
        CHECK_MSG(safe_open(&f, path, &err) == -1 && strstr(err.msg, cases[i].why), "%s", err.msg);
    }
    put(path, "{}", 2, 2, 0);
    CHECK(safe_open(&f, path, &err) == 0 && f.n == 0);
    safe_close(&f);
    put(path, "{}", 2, 0, 0);
    CHECK(safe_open(&f, path, &err) == -1);
    free(path);
}

TEST(safetensors_not_a_file) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x"), *fifo = path_in(dir, "fifo");
    SafeFile f;
    Err err;
    CHECK(safe_open(&f, path, &err) == -1 && strstr(err.msg, "No such file"));
    CHECK(safe_open(&f, dir, &err) == -1 && strstr(err.msg, "not a regular file"));
    REQUIRE(mkfifo(fifo, 0600) == 0);
    CHECK(safe_open(&f, fifo, &err) == -1 && strstr(err.msg, "not a regular file"));
    size_t n;
    CHECK(!file_read(fifo, 100, &n, &err) && strstr(err.msg, "not a regular file"));
    test_write_file(path, "", 0);
    CHECK(safe_open(&f, path, &err) == -1 && strstr(err.msg, "no safetensors file"));
    free(path);
    free(fifo);
}

TEST(safetensors_count_limit) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x");
    for (int n = SAFE_TENSORS_MAX; n <= SAFE_TENSORS_MAX + 1; n++) {
        size_t length;
        char *text = NULL;
        SafeFile f;
        Err err;
        FILE *m = open_memstream(&text, &length);
        for (int i = 0; i < n; i++)
            fprintf(m, "%c\"t%d\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[%d,%d]}", i ? ',' : '{', i, i,
                    i + 1);
        fprintf(m, "}");
        fclose(m);
        put(path, text, length, length, (size_t)n);
        int rc = safe_open(&f, path, &err);
        CHECK_MSG((rc == 0) == (n <= SAFE_TENSORS_MAX), "%d tensors: %s", n, rc ? err.msg : "accepted");
        if (rc == 0) safe_close(&f);
        free(text);
    }
    free(path);
}

TEST(safetensors_truncated_at_every_byte) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x");
    size_t n;
    REQUIRE(safe_save(path, good, COUNTOF(good), 42, NULL) == 0);
    char *file = test_read_file(path, &n);
    for (size_t k = 0; k < n; k++) {
        SafeFile f;
        Err err = {""};
        test_write_file(path, file, k);
        CHECK_MSG(safe_open(&f, path, &err) == -1 && err.msg[0], "cut at %zu of %zu", k, n);
    }
    free(file);
    free(path);
}

/* Whatever opens after a flip is a whole file again: every tensor lies inside the mapping. */
TEST(safetensors_flipped_bits) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x");
    size_t n;
    REQUIRE(safe_save(path, good, COUNTOF(good), 42, NULL) == 0);
    char *file = test_read_file(path, &n);
    SafeFile f;
    REQUIRE(safe_open(&f, path, NULL) == 0);
    size_t header = safe_header_bytes(&f);
    safe_close(&f);
    Draws d = draws_open(3, DRAW_TEST, 2);
    for (size_t round = 0; round < header + 1000; round++) {
        char *copy = xmalloc(n);
        memcpy(copy, file, n);
        int flips = round < header ? 1 : 2 + (int)draw_below(&d, 4);
        for (int k = 0; k < flips; k++) {
            size_t bit = round < header ? 8 * round + draw_below(&d, 8) : draw_below(&d, 8 * header);
            copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        }
        test_write_file(path, copy, n);
        if (safe_open(&f, path, NULL) == 0) {
            for (int i = 0; i < f.n; i++) {
                const char *p = f.tensors[i].data;
                CHECK(p >= (char *)f.map && p + f.tensors[i].bytes <= (char *)f.map + f.map_bytes);
            }
            safe_close(&f);
        }
        free(copy);
    }
    free(file);
    free(path);
}

/* ---- atomic writing ---- */

TEST(files_replace_keeps_the_old_mapping) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x"), *temp = path_in(dir, "x.tmp");
    SafeFile f;
    REQUIRE(safe_save(path, good, 1, 1, NULL) == 0 && safe_open(&f, path, NULL) == 0);
    test_write_file(temp, "left behind by a killed process", 31);
    REQUIRE(safe_save(path, good + 4, 1, 2, NULL) == 0);
    CHECK(!memcmp(safe_find(&f, "w")->data, numbers, sizeof numbers));
    safe_close(&f);
    REQUIRE(safe_open(&f, path, NULL) == 0);
    CHECK(safe_find(&f, "z") && !strcmp(f.metadata_step, "2"));
    safe_close(&f);
    free(path);
    free(temp);
}

TEST(files_failed_write_leaves_the_old_file) {
    const char *dir = test_dir();
    char *path = path_in(dir, "x"), *temp = path_in(dir, "x.tmp");
    Err err;
    size_t n;
    REQUIRE(safe_save(path, good, 1, 1, NULL) == 0);
    char *before = test_read_file(path, &n);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < n; limit += 17) {
        small = (struct rlimit){.rlim_cur = limit, .rlim_max = old.rlim_max};
        setrlimit(RLIMIT_FSIZE, &small);
        int rc = safe_save(path, good, 1, 1, &err);
        bool left = access(temp, F_OK) == 0;
        int whole = file_write(path, before, n, NULL);
        setrlimit(RLIMIT_FSIZE, &old);
        CHECK_MSG(rc == -1 && strstr(err.msg, "File too large"), "limit %llu: %d", (unsigned long long)limit, rc);
        CHECK(!left && whole == -1 && access(temp, F_OK) == -1);
    }
    signal(SIGXFSZ, SIG_DFL);
    size_t m;
    char *after = test_read_file(path, &m);
    CHECK(n == m && !memcmp(before, after, n));
    CHECK(file_write("/nonexistent/x", "", 0, &err) == -1 && strstr(err.msg, "No such file"));
    CHECK(file_write(dir, "x", 1, &err) == -1 && access(test_text("%s.tmp", dir), F_OK) == -1); /* it is a folder */
    CHECK(!file_read(path, n - 1, &m, &err) && strstr(err.msg, "at most"));
    free(before);
    free(after);
    free(path);
    free(temp);
}
