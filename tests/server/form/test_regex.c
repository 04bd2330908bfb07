/* Regular expressions: held to PCRE2, which matches whole what a form takes byte by byte. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/forms.h"
#include "tests/support/test.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

typedef struct Judge {
    pcre2_code *code;
    pcre2_match_data *match;
} Judge;

static bool judge_open(Judge *j, const char *pattern) {
    int code;
    PCRE2_SIZE at;
    uint32_t options = PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX;
    pcre2_compile_context *c = pcre2_compile_context_create(NULL);
    pcre2_set_compile_extra_options(c, PCRE2_EXTRA_MATCH_LINE | PCRE2_EXTRA_ALT_BSUX);
    j->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &code, &at, c);
    pcre2_compile_context_free(c);
    j->match = j->code ? pcre2_match_data_create_from_pattern(j->code, NULL) : NULL;
    return j->code != NULL;
}

static void judge_close(Judge *j) {
    pcre2_match_data_free(j->match);
    pcre2_code_free(j->code);
}

static Taken judge(const Judge *j, const char *text, size_t n) {
    int rc = pcre2_match(j->code, (PCRE2_SPTR)text, n, 0, PCRE2_ANCHORED | PCRE2_PARTIAL_SOFT, j->match, NULL);
    return rc >= 0 ? TAKEN_WHOLE : rc == PCRE2_ERROR_PARTIAL ? TAKEN_BEGINNING : TAKEN_NOT;
}

/* Texts of these letters alone: short enough to try all. */
static void check_all(const char *pattern) {
    static const char *const letters[] = {"a", "b", "c", "1", "-", "\xC3\xA9"};
    FormError e;
    Judge j;
    Form *f = form_of_regex(pattern, strlen(pattern), &e);
    CHECK_MSG(f != NULL, "%s: %s", pattern, f ? "" : e.message);
    CHECK_MSG(judge_open(&j, pattern), "PCRE2 knows no %s", pattern);
    if (!f) return;
    enum { DEEP = 4 };
    for (int i = 0, all = 6 * 6 * 6 * 6; i < all; i++) {
        char text[DEEP * 2 + 1];
        size_t n = 0, length = (size_t)(i % DEEP) + 1;
        for (int rest = i; length > 0; length--, rest /= 6)
            for (const char *c = letters[rest % 6]; *c; c++) text[n++] = *c;
        text[n] = 0;
        Taken ours = form_takes(f, text, n), theirs = judge(&j, text, n);
        CHECK_MSG((ours == TAKEN_WHOLE) == (theirs == TAKEN_WHOLE), "%s on %s: %d, PCRE2 %d", pattern, text, ours,
                  theirs);
        CHECK_MSG(ours == TAKEN_NOT || theirs != TAKEN_NOT, "%s on %s", pattern, text);
    }
    judge_close(&j);
    form_release(f);
}

TEST(form_regex_is_what_pcre2_matches) {
    static const char *const patterns[] = {"a",
                                           "ab|c",
                                           "(a|b)*c",
                                           "a+b?1{2}",
                                           "[a-c]{2,3}-",
                                           "[^a]*",
                                           "(?:ab){1,2}(?<x>c)?",
                                           "\\d+",
                                           "\\w*",
                                           "a.c",
                                           "(a*)*b",
                                           "(a?){3}",
                                           "(ab|a)(c|bc)",
                                           "a{2,}b",
                                           "[\\d-]+",
                                           "^a|b$",
                                           "\xC3\xA9+a",
                                           "[\xC3\xA9-\xC3\xB0"
                                           "b]*",
                                           "(a+)+b",
                                           "(a|ab)(b|)c*",
                                           "a*?b",
                                           "((a|b)?c){2}",
                                           "[^\\d\\-]+",
                                           "\\x61\\u0062",
                                           "(|a)+b",
                                           "(a|b|c|1|-){0,3}",
                                           ""};
    for (size_t i = 0; i < COUNTOF(patterns); i++) check_all(patterns[i]);
}

TEST(form_regex_refuses_by_name) {
    static const struct {
        const char *pattern, *why;
    } cases[] = {{"a(?=b)", "lookahead"},
                 {"(?<!a)b", "lookbehind"},
                 {"(a)\\1", "back reference"},
                 {"\\k<x>", "back reference"},
                 {"a\\b", "look around"},
                 {"(?>a)", "atomic"},
                 {"(?C1)a", "callout"},
                 {"(*ACCEPT)", "verb"},
                 {"(?R)", "recursion"},
                 {"(?i)a", "flags"},
                 {"\\p{L}", "properties"},
                 {"a++", "possessive"},
                 {"a**", "nothing to repeat"},
                 {"*a", "nothing to repeat"},
                 {"(a", "without )"},
                 {"a)", "without ("},
                 {"[a", "without ]"},
                 {"[b-a]", "no range"},
                 {"a{3,2}", "out of order"},
                 {"a{70000}", "too often"},
                 {"a^b", "ends of an alternative"},
                 {"(a$|b)", "ends of an alternative"},
                 {"[]", "empty class"},
                 {"[[:alpha:]]", "POSIX"},
                 {"\\u12", "hexadecimal"},
                 {"\\ud800", "no code point"},
                 {"a\\", "ends behind"},
                 {"\\q", "no such escape"},
                 {"a\xFF", "no UTF-8"},
                 {"[^\\s\\S]", "no text is of this form"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        FormError e = {.path = ""};
        Form *f = form_of_regex(cases[i].pattern, strlen(cases[i].pattern), &e);
        CHECK_MSG(!f && strstr(e.message, cases[i].why), "%s: %s", cases[i].pattern, f ? "taken" : e.message);
        form_release(f);
    }
}

/* Beginnings that end inside a code point are told from those that no code point of the class has. */
TEST(form_code_points_in_parts) {
    FormError e;
    static const char pattern[] = "[\xC3\xA0-\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80-\xF0\x9F\x98\x8F]+";
    Form *f = form_of_regex(pattern, strlen(pattern), &e);
    static const struct {
        const char *text;
        Taken taken;
    } cases[] = {{"\xC3", TAKEN_BEGINNING},         {"\xC3\xA0", TAKEN_WHOLE},
                 {"\xC3\x9F", TAKEN_NOT},           {"\xC4", TAKEN_NOT},
                 {"\xE2\x82", TAKEN_BEGINNING},     {"\xE2\x83", TAKEN_NOT},
                 {"\xE2\x82\xAC", TAKEN_WHOLE},     {"\xF0\x9F\x98", TAKEN_BEGINNING},
                 {"\xF0\x9F\x99", TAKEN_NOT},       {"\xF0\x9F\x98\x90", TAKEN_NOT},
                 {"\xC3\xA0\xC3", TAKEN_BEGINNING}, {"\xC0\xA0", TAKEN_NOT},
                 {"\xE0\x80", TAKEN_NOT},           {"\x80", TAKEN_NOT}};
    for (size_t i = 0; i < COUNTOF(cases) && f; i++)
        CHECK_MSG(form_takes(f, cases[i].text, strlen(cases[i].text)) == cases[i].taken, "case %zu", i);
    form_release(f);
    f = form_of_regex(".", 1, &e);
    CHECK(form_takes(f, "\xED\xA0", 2) == TAKEN_NOT); /* surrogates */
    CHECK(form_takes(f, "\xF4\x90", 2) == TAKEN_NOT && form_takes(f, "\xE0\x9F", 2) == TAKEN_NOT);
    form_release(f);
}

/* What costs others seconds costs a bounded number of nodes a byte. */
TEST(form_hostile_patterns_are_bounded) {
    static const char *const patterns[] = {"(a+)+$",
                                           "(a|aa)+",
                                           "(a|a?)+b",
                                           "(.*a){20}",
                                           "((a{0,100}){0,100}){0,100}",
                                           "(a{0,60000}b?){0,60000}",
                                           "(((((a*)*)*)*)*)*",
                                           "(a?){500}a{500}"};
    double before = test_cpu_seconds();
    char text[600];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < COUNTOF(patterns); i++) {
        FormError e;
        Form *f = form_of_regex(patterns[i], strlen(patterns[i]), &e);
        CHECK_MSG(f != NULL, "%s: %s", patterns[i], f ? "" : e.message);
        if (f) form_takes(f, text, sizeof text);
        form_release(f);
    }
    CHECK_MSG(test_cpu_seconds() - before < 20 * SLOWNESS, "%g s", test_cpu_seconds() - before);
}
