#include "base/utf8.h"
#include "tests/support/test.h"

#include <string.h>

TEST(utf8_next_cuts_maximal_subparts) {
    static const struct {
        const char *text;
        Utf8 kind;
        size_t length;
    } cases[] = {
        {"a", UTF8_VALID, 1},
        {"\xC3\xA9", UTF8_VALID, 2},
        {"\xED\x9F\xBF", UTF8_VALID, 3},
        {"\xF4\x8F\xBF\xBF", UTF8_VALID, 4},
        {"\x80", UTF8_INVALID, 1},             /* a continuation without a lead */
        {"\xC0\x80", UTF8_INVALID, 1},         /* overlong */
        {"\xE0\x9F\xBF", UTF8_INVALID, 1},     /* overlong */
        {"\xED\xA0\x80", UTF8_INVALID, 1},     /* a surrogate */
        {"\xF4\x90\x80\x80", UTF8_INVALID, 1}, /* beyond U+10FFFF */
        {"\xF0\x9F\x98x", UTF8_INVALID, 3},
        {"\xF0\x9F\x98", UTF8_PARTIAL, 3},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        size_t n = strlen(cases[i].text), length;
        Utf8 kind = utf8_next(cases[i].text, n, &length);
        CHECK_MSG(kind == cases[i].kind && length == cases[i].length, "case %zu: %d, %zu bytes", i, (int)kind, length);
        bool valid = kind == UTF8_VALID;
        CHECK(utf8_is_valid(cases[i].text, n) == valid);
        CHECK(utf8_char_length(cases[i].text, n) == (valid ? length : 0));
    }
    CHECK(utf8_valid_prefix("a\xC3\xA9\xC3", 4) == 3);
    CHECK(utf8_is_valid("", 0));
}

TEST(utf8_put_reads_back) {
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char out[4];
        size_t n = utf8_put(c, out);
        bool surrogate = c >= 0xD800 && c <= 0xDFFF;
        if (utf8_char_length(out, n) == (surrogate ? 0 : n)) continue;
        CHECK_MSG(false, "U+%04X", c);
        break;
    }
}

TEST(text_made_printable_is_obeyed_by_no_terminal) {
    static const char *const cases[][2] = {
        {"plain, d\xC3\xA9j\xC3\xA0 vu", "plain, d\xC3\xA9j\xC3\xA0 vu"},
        {"a\x1B[2Jb\nc\x7F", "a?[2Jb?c?"},
        {"\xC2\x9B"
         "2J\xC2\x80\xC2\xA0",
         "?2J?\xC2\xA0"},              /* C1's own escape; U+00A0 is a blank */
        {"\x9B!\xFF\xE2\x82", "?!??"}, /* bytes of no character, the last of a text that was cut short */
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char text[64];
        strcpy(text, cases[i][0]);
        text_make_printable(text);
        CHECK_MSG(!strcmp(text, cases[i][1]), "case %zu: %s", i, text);
    }
}
