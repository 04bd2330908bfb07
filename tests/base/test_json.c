#include "base/err.h"
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "base/json_write.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/support/test.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16, VALUES = 1000 };

static const char *const accepted[] = {
    "null",
    "true",
    "false",
    " 0 ",
    "-0",
    "1.5e+3",
    "1E5",
    "0e1",
    "\"\"",
    "[]",
    "{}",
    "[ ]",
    "{ }",
    "[[],[[]]]",
    "{\"a\":{\"a\":{\"a\":1}}}",
    "[{\"a\":1},{\"a\":2}]",
    "\t\r\n [1,2,3] \n",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    "\"\\u00e9\\uD83D\\uDE00\"",
    "\"\x7f\"",
    "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
    "\"\xf4\x8f\xbf\xbf\"",
    "\"\xed\x9f\xbf\xee\x80\x80\"",
    "123456789012345678901234567890",
    "1e-999",
    "{\"\":0}",
    "{\"a\":1,\"A\":2}",
    "{\"a\":1,\"ab\":2,\"b\":3}",
    "\"\\u0022\\uFFFF\"",
    "1.7976931348623157e308",
};

static const struct {
    const char *text, *why;
} refused[] = {
    {"", "unexpected end"},
    {"   ", "unexpected end"},
    {"[", "unexpected end"},
    {"[1", "no comma"},
    {"[1,", "unexpected end"},
    {"[1,]", "no value"},
    {"[,1]", "no value"},
    {"[1 2]", "no comma"},
    {"[1}", "no comma"},
    {"{", "no key"},
    {"{\"a\"", "no colon"},
    {"{\"a\" 1}", "no colon"},
    {"{\"a\":}", "no value"},
    {"{\"a\":1,}", "no key"},
    {"{a:1}", "no key"},
    {"{1:1}", "no key"},
    {"{'a':1}", "no key"},
    {"{\"a\":1]", "no comma"},
    {"[1]]", "behind the end"},
    {"1 x", "behind the end"},
    {"{}{}", "behind the end"},
    {"nul", "unknown word"},
    {"nulll", "behind the end"},
    {"True", "no value"},
    {"NaN", "no value"},
    {"Infinity", "no value"},
    {"-Infinity", "without digits"},
    {"01", "leading zero"},
    {"-01", "leading zero"},
    {"-", "without digits"},
    {"+1", "no value"},
    {".5", "no value"},
    {"1.", "without digits"},
    {"1.e5", "without digits"},
    {"1e", "without digits"},
    {"1e+", "without digits"},
    {"0x10", "behind the end"},
    {"1e999", "out of range"},
    {"-1e309", "out of range"},
    {"\"", "string without end"},
    {"\"a", "string without end"},
    {"\"\\", "unknown escape"},
    {"\"\\x41\"", "unknown escape"},
    {"\"\\'\"", "unknown escape"},
    {"\"\\u12\"", "hexadecimal"},
    {"\"\\u12g4\"", "hexadecimal"},
    {"\"\\u\"", "hexadecimal"},
    {"\"\\u0000\"", "NUL"},
    {"{\"a\\u0000b\":1}", "NUL"},
    {"\"\\uD800\"", "surrogate"},
    {"\"\\uDC00\"", "surrogate"},
    {"\"\\uD800\\u0041\"", "surrogate"},
    {"\"\\uD800\\uD800\"", "surrogate"},
    {"\"\\uD800\\uDBFF\"", "surrogate"},
    {"\"\\uD800\\uE000\"", "surrogate"},
    {"\"\n\"", "control character"},
    {"\"\x1f\"", "control character"},
    {"\"\t\"", "control character"},
    {"\"\x80\"", "UTF-8"},
    {"\"\xc0\x80\"", "UTF-8"},
    {"\"\xc1\xbf\"", "UTF-8"},
    {"\"\xc3\"", "UTF-8"},
    {"\"\xe0\x80\x80\"", "UTF-8"},
    {"\"\xed\xa0\x80\"", "UTF-8"},
    {"\"\xf0\x8f\xbf\xbf\"", "UTF-8"},
    {"\"\xf4\x90\x80\x80\"", "UTF-8"},
    {"\"\xf5\x80\x80\x80\"", "UTF-8"},
    {"\"\xff\"", "UTF-8"},
    {"\xef\xbb\xbf{}", "no value"},
    {"\xc2\xa0[]", "no value"},
    {"[1]\f", "behind the end"},
    {"// c\n1", "no value"},
    {"[1 /* c */]", "no comma"},
    {"{\"a\":1,\"a\":2}", "\"a\" occurs twice"},
    {"{\"a\":1,\"b\":2,\"\\u0061\":3}", "\"a\" occurs twice"},
    {"[{\"x\":{\"k\":1,\"j\":{},\"k\":[]}}]", "\"k\" occurs twice"},
    {"{\"\":1,\"\":2}", "occurs twice"},
};

TEST(json_accepts_rfc8259) {
    for (size_t i = 0; i < COUNTOF(accepted); i++) {
        Err err;
        cJSON *root = json_parse(accepted[i], strlen(accepted[i]), DEPTH, VALUES, &err);
        CHECK_MSG(root, "%s: %s", accepted[i], err.msg);
        cJSON_Delete(root);
    }
}

TEST(json_refuses_the_rest) {
    for (size_t i = 0; i < COUNTOF(refused); i++) {
        Err err = {""};
        int rc = json_check(refused[i].text, strlen(refused[i].text), DEPTH, VALUES, &err);
        CHECK_MSG(rc == -1 && strstr(err.msg, refused[i].why), "%s: %d, %s", refused[i].text, rc, err.msg);
    }
    CHECK(json_check("1\0", 2, DEPTH, VALUES, NULL));
    CHECK(json_check("\"a\0b\"", 5, DEPTH, VALUES, NULL));
    CHECK(json_check("{}", 1, DEPTH, VALUES, NULL));
}

static char *repeated(const char *unit, int n, const char *end, size_t *length) {
    size_t m = strlen(unit), tail = strlen(end);
    char *text = xmalloc(m * (size_t)n + tail * (size_t)n + 1);
    for (int i = 0; i < n; i++) memcpy(text + m * (size_t)i, unit, m);
    for (int i = 0; i < n; i++) memcpy(text + m * (size_t)n + tail * (size_t)i, end, tail);
    text[(m + tail) * (size_t)n] = 0;
    *length = (m + tail) * (size_t)n;
    return text;
}

TEST(json_limits) {
    for (int n = DEPTH - 1; n <= DEPTH + 1; n++) {
        size_t length;
        char *text = repeated("[", n, "]", &length);
        CHECK_MSG((json_check(text, length, DEPTH, VALUES, NULL) == 0) == (n <= DEPTH), "depth %d", n);
        free(text);
    }
    for (int n = VALUES - 1; n <= VALUES + 1; n++) { /* an array of n - 1 numbers: the array counts too */
        size_t length;
        char *text = repeated("0,", n - 1, "", &length), *all = xmalloc(length + 2);
        snprintf(all, length + 2, "[%s", text);
        all[length] = ']';
        CHECK_MSG((json_check(all, length + 1, DEPTH, VALUES, NULL) == 0) == (n <= VALUES), "%d values", n);
        free(text);
        free(all);
    }
    for (size_t n = 62; n <= 64; n++) {
        char digits[65];
        memset(digits, '1', sizeof digits);
        CHECK_MSG((json_check(digits, n, DEPTH, VALUES, NULL) == 0) == (n <= 63), "%zu digits", n);
    }
    size_t length;
    char *deep = repeated("[", 1000000, "", &length);
    CHECK(json_check(deep, length, DEPTH, VALUES, NULL));
    free(deep);
}

/* A quadratic search for duplicates would take minutes here. */
TEST(json_duplicates_in_a_large_object) {
    enum { N = 100000 };
    size_t n;
    char *text = NULL;
    FILE *f = open_memstream(&text, &n);
    for (int i = 0; i < N; i++) fprintf(f, "%c\"a common prefix of the keys %d\":%d", i ? ',' : '{', i, i);
    fprintf(f, "}");
    fclose(f);
    double t = test_cpu_seconds();
    CHECK(json_check(text, n, DEPTH, 2 * N, NULL) == 0);
    CHECK_MSG(test_cpu_seconds() - t < 5 * SLOWNESS, "%.2f s", test_cpu_seconds() - t);
    char *at = strstr(text, "keys 99999");
    memcpy(at, "keys 77777", 10);
    CHECK(json_check(text, n, DEPTH, 2 * N, NULL));
    free(text);
}

/* What we accept, cJSON accepts; and no bytes whatever crash either. */
TEST(json_random_bytes) {
    static const char seed_text[] = "{\"a\":[1,-2.5e3,true,null],\"b\\n\\u00e9\":{\"c\":\"\\uD83D\\uDE00 \xc3\xa9\"}}";
    Draws d = draws_open(7, DRAW_TEST, 1);
    int n_accepted = 0;
    for (int round = 0; round < 20000; round++) {
        char text[sizeof seed_text];
        memcpy(text, seed_text, sizeof text);
        for (uint64_t k = 1 + draw_below(&d, 3); k > 0; k--)
            text[draw_below(&d, sizeof text - 1)] = "\"\\{}[]:,0e.-u tn\xc3\x00"[draw_below(&d, 18)];
        size_t n = draw_below(&d, 4) ? sizeof text - 1 : draw_below(&d, sizeof text);
        char *copy = xmalloc(n + 1); /* exactly sized: reading beyond the end shows */
        memcpy(copy, text, n);
        copy = xrealloc(copy, n ? n : 1);
        Err err = {""};
        cJSON *root = json_parse(copy, n, DEPTH, VALUES, &err);
        CHECK_MSG(root || !strstr(err.msg, "cJSON"), "%.*s", (int)n, text);
        n_accepted += root != NULL;
        cJSON_Delete(root);
        free(copy);
    }
    CHECK_MSG(n_accepted > 500, "%d accepted", n_accepted);
}

TEST(json_integers) {
    static const struct {
        const char *text;
        int64_t low, high;
        bool ok;
    } cases[] = {
        {"5", 0, 5, true},        {"6", 0, 5, false},     {"-1", 0, 5, false},
        {"2.5", 0, 5, false},     {"\"3\"", 0, 5, false}, {"null", 0, 5, false},
        {"true", 0, 5, false},    {"1e2", 0, 100, true},  {"-0", 0, 5, true},
        {"1e300", 0, 100, false}, {"[1]", 0, 5, false},   {"9007199254740992", 0, (int64_t)1 << 53, true},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        cJSON *item = cJSON_Parse(cases[i].text);
        int64_t v = 0;
        CHECK_MSG(json_integer(item, cases[i].low, cases[i].high, &v) == cases[i].ok, "%s", cases[i].text);
        cJSON_Delete(item);
    }
    CHECK(!json_integer(NULL, 0, 1, &(int64_t){0}));
}

/* Beyond what a double holds, to the last digit. */
TEST(json_integers_of_64_bits) {
    static const char text[] =
        "{\"a\":[1,{\"b\":9007199254740993}],\"c\":-9223372036854775808,\"d\":\"x\","
        "\"e\":9223372036854775807,\"f\":9223372036854775808,\"g\":1e17,\"h\":0.10000000000000001,"
        "\"i\":1e3,\"j\":-9007199254740993}";
    static const struct {
        const char *key;
        int64_t value;
        bool ok;
    } cases[] = {{"c", INT64_MIN, true}, {"d", 0, false}, {"e", INT64_MAX, true}, {"f", 0, false},
                 {"g", 0, false},        {"h", 0, false}, {"i", 1000, true},      {"j", -9007199254740993, true}};
    Err err;
    int64_t v;
    cJSON *root = json_parse(text, strlen(text), 8, 100, &err);
    REQUIRE(root);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        bool ok = json_int64(cJSON_GetObjectItem(root, cases[i].key), &v);
        CHECK_MSG(ok == cases[i].ok && (!ok || v == cases[i].value), "%s", cases[i].key);
    }
    CHECK(json_int64(cJSON_GetObjectItem(cJSON_GetArrayItem(root->child, 1), "b"), &v) && v == 9007199254740993);
    CHECK(!json_int64(NULL, &v));
    cJSON_Delete(root);
}

/* Whatever a text is, its place in a message is one line that does nothing to a terminal. */
TEST(json_shown_in_a_message) {
    static const char text[] = "[\"a\\u001b[2J\\nb\",0.1,null,false,[],{\"a\":1},"
                               "\"---------1---------2---------3---------4-------\xc3\xa9\"]";
    static const char *const shown[] = {
        "\"a?[2J?b\"",
        "0.1",
        "null",
        "false",
        "an array",
        "an object",
        "\"---------1---------2---------3---------4-------...\"",
    };
    cJSON *list = json_parse(text, sizeof text - 1, DEPTH, VALUES, NULL);
    REQUIRE(cJSON_GetArraySize(list) == COUNTOF(shown));
    for (int i = 0; i < (int)COUNTOF(shown); i++) {
        Shown s = show_json(cJSON_GetArrayItem(list, i));
        CHECK_MSG(!strcmp(s.text, shown[i]), "%s, not %s", s.text, shown[i]);
    }
    CHECK(!strcmp(show_json(NULL).text, "missing"));
    cJSON_Delete(list);
}

static void check_written(Buffer *b, const char *wanted) {
    char *text = json_end_text(b);
    CHECK_MSG(!strcmp(text, wanted), "%s, not %s", text, wanted);
    free(text);
}

/* cJSON writes 10/11 with 15 digits, which are another number: a resumed run took it for a worse figure than its own.
 */
TEST(json_write_numbers_read_back) {
    static const double values[] = {0,    -0.0, 1,       -1,     0.1,          0.1f,   1.0 / 3, 2.0 / 3, 10.0 / 11,
                                    1e15, 1e16, INT_MAX, -1e300, 123456789012, 5e-324, 1e21,    6.0 / 7, 0.3 + 1e-16};
    for (uint32_t i = 0; i < 20000; i++) {
        Philox r = philox4x32(i, 1, 2, 3, 4);
        uint64_t bits = (uint64_t)r.v[0] << 32 | r.v[1];
        double value = (double)r.v[2] / (1 + r.v[3]) * (r.v[1] & 1 ? -1 : 1);
        if (i % 2) memcpy(&value, &bits, sizeof value);
        if (i < COUNTOF(values)) value = values[i];
        Buffer b = {0};
        json_put_double(&b, NULL, value);
        cJSON *read = cJSON_ParseWithLength(b.data, b.n);
        if (isfinite(value))
            CHECK_MSG(cJSON_IsNumber(read) && !memcmp(&read->valuedouble, &value, sizeof value), "%.17g is %.*s", value,
                      (int)b.n, b.data);
        else
            CHECK(cJSON_IsNull(read));
        cJSON_Delete(read);
        buffer_free(&b);
    }
    Buffer b = {0};
    json_put_double(&b, NULL, 0.1);
    check_written(&b, "0.1");
}

TEST(json_write_items_as_they_were_read) {
    static const char text[] =
        "{\"a\":[1,-0.25,12345678901234567890,8007199254740991,0.30000000000000004,1e+300],\"\\\"\":"
        "{\"b\":null,\"c\":[true,false,[],{}]},\"d\":\"\\u0001\xC3\xA9\"}";
    Err err;
    cJSON *item = json_parse(text, strlen(text), 8, 100, &err);
    Buffer b = {0};
    json_put_item(&b, NULL, item);
    check_written(&b, text);
    cJSON_Delete(item);
}

TEST(json_write_layouts) {
    static const char *const wanted[] = {[JSON_DENSE] = "{\"a\":[1,2],\"\\\"\\u0001\\n\":{},\"c\":0.333,\"d\":null}",
                                         [JSON_SPACED] =
                                             "{\"a\": [1, 2], \"\\\"\\u0001\\n\": {}, \"c\": 0.333, \"d\": null}",
                                         [JSON_LINES] = "{\n  \"a\": [\n  1,\n  2],\n  \"\\\"\\u0001\\n\": {},\n  "
                                                        "\"c\": 0.333,\n  \"d\": null}"};
    for (int layout = JSON_DENSE; layout <= JSON_LINES; layout++) {
        Buffer b = {0};
        json_open(&b, NULL, '{');
        b.layout = layout;
        json_put_ints(&b, "a", (int[]){1, 2}, 2);
        json_open(&b, "\"\1\n", '{');
        json_close(&b, '}');
        json_put_rounded(&b, "c", 1.0 / 3, 3);
        json_put_rounded(&b, "d", NAN, 3);
        json_close(&b, '}');
        check_written(&b, wanted[layout]);
    }
}
