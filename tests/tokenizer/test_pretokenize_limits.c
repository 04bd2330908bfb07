/* Expressions that try all ways: they end with a reason, in bounded processor time. */
#include "base/memory.h"
#include "tests/support/test.h"
#include "tokenizer/pretokenize.h"

#include <stdlib.h>
#include <string.h>

/* Cuts `text` with one expression; what it says when it cannot, and the seconds of processor time that it took. */
static bool cut(const char *pattern, const char *text, size_t n, Err *err, double *seconds) {
    Pretokenizer *p = pretokenizer_new(&pattern, 1, err);
    WordScan *s = word_scan_open(p);
    const char *word;
    size_t length;
    double start = test_cpu_seconds();
    int rc = 1;
    for (word_scan_start(s, text, n); rc > 0;) rc = word_scan_next(s, &word, &length, err);
    *seconds = test_cpu_seconds() - start;
    word_scan_close(s);
    pretokenizer_free(p);
    return rc == 0;
}

/* 2^n ways to cut n letters, and no b. */
TEST(pretokenize_steps_of_a_match_are_bounded) {
    Err err = {""};
    double seconds;
    char text[101];
    memset(text, 'a', sizeof text);
    CHECK(!cut("(?:a|a)*[bc]", text, 100, &err, &seconds));
    CHECK_MSG(strstr(err.msg, "byte 0 of 100") && strstr(err.msg, "steps"), "%s", err.msg);
    CHECK(cut("(?:a|a)*[bc]", text, 12, &err, &seconds));
}

/* Each match by itself is below its bound, all of them together are above what the text has. */
TEST(pretokenize_time_of_a_text_is_bounded) {
    enum { RUN = 16, BYTES = 1 << 16 };
    static const double MOST = 1 + 1e-5 * BYTES;
    Err err = {""};
    double seconds;
    char *text = xmalloc(BYTES);
    for (int i = 0; i < BYTES; i++) text[i] = i % (RUN + 1) == RUN ? 'c' : 'a';
    CHECK(!cut("(?:(?:a|a)*b|a)", text, BYTES, &err, &seconds));
    CHECK_MSG(strstr(err.msg, "too slow for this text"), "%s", err.msg);
    CHECK_MSG(seconds < 2 * MOST * SLOWNESS, "%.1f s", seconds);
    free(text);
}
