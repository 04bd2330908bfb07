/* Expressions as Oniguruma reads them, for which they are written: the words are its own, or pcre2 would give others
 * and they are refused. */
#include "base/memory.h"
#include "tests/support/test.h"
#include "tokenizer/pretokenize.h"

#include <stdlib.h>
#include <string.h>

/* The words of text with bars between them, or what is wrong with the pattern; malloc'ed. */
static char *cut(const char *pattern, const char *text) {
    Err err = {""};
    Pretokenizer *p = pretokenizer_new(&pattern, 1, &err);
    if (!p) return xstrdup(err.msg);
    WordScan *s = word_scan_open(p);
    char *out = xcalloc(2, strlen(text) + 1), *at = out;
    const char *word;
    size_t n;
    for (word_scan_start(s, text, strlen(text)); word_scan_next(s, &word, &n, &err) > 0; *at++ = '|')
        at = mempcpy(at, word, n);
    word_scan_close(s);
    pretokenizer_free(p);
    return out;
}

TEST(pretokenize_reads_expressions_as_oniguruma_does) {
    static const struct {
        const char *pattern, *text, *words;
    } cases[] = {
        {"^.|.$", "ab\ncd", "a|b|\n|c|d|"},
        {"\\s+$|\\S+", "a  \n b", "a|  |\n |b|"},
        {"\\p{N}{1,3}|\\p{L}++", "1234ab", "123|4|ab|"},
        {"[^\\[\\]&]+", "a&b[", "a|&|b|[|"},
        {"[^]a]+|[]]", "b]a", "b|]|a|"},
        {"(?i:THE)", "xthe", "x|the|"},
        {"\\p{N}{1,3}+", "", "\"\\p{N}{1,3}+\" holds {m,n}+ or {,n}, which is not read as"},
        {"a{,2}b", "", "holds {m,n}+ or {,n}"},
        {"\\h", "", "holds \\h, \\w or \\b"},
        {"[\\w]", "", "holds \\h, \\w or \\b"},
        {"a\\b", "", "holds \\h, \\w or \\b"},
        {"[[:alpha:]]", "", "holds a class in a class"},
        {"[a-z&&[^b]]", "", "holds a class in a class"},
        {"(?m:.)", "", "holds (?m"},
        {"(?i-m:.)", "", "holds (?m"},
        {"a*", "", "holds a match of no characters"},
        {"\\", "", "is no regular expression"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *got = cut(cases[i].pattern, cases[i].text);
        CHECK_MSG(*cases[i].text ? !strcmp(got, cases[i].words) : strstr(got, cases[i].words) != NULL, "%s: %s",
                  cases[i].pattern, got);
        free(got);
    }
}
