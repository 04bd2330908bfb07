/* Grammars: what they take, and what is wrong with those that are none. */
#include "base/memory.h"
#include "tests/support/forms.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#define LIST(...)                                                                                                      \
    (const char *const[]) { __VA_ARGS__, NULL }
#define NONE                                                                                                           \
    (const char *const[]) { NULL }

static void check(const char *grammar, const char *const *whole, const char *const *others) {
    FormError e;
    Form *f = form_of_grammar(grammar, strlen(grammar), &e);
    CHECK_MSG(f != NULL, "%s: %s", grammar, f ? "" : e.message);
    if (f) form_check(f, grammar, whole, others);
    form_release(f);
}

static void check_refused(const char *grammar, const char *why) {
    FormError e = {.path = ""};
    Form *f = form_of_grammar(grammar, strlen(grammar), &e);
    CHECK_MSG(!f && strstr(e.message, why), "%.100s: %s", grammar, f ? "taken" : e.message);
    form_release(f);
}

TEST(form_grammar_takes) {
    check("root ::= \"yes\" | \"no\"", LIST("yes", "no"), LIST("", "ye", "yesno", "maybe"));
    check("root ::= item+ # a list\nitem ::= \"- \" [^\\r\\n]+ \"\\n\"", LIST("- a\n", "- a\n- \xC3\xA9\n"),
          LIST("- a", "- \n"));
    check("root ::= \"(\" root \")\" | \"x\"", LIST("x", "(x)", "(((x)))"), LIST("(x", "()", "x)"));
    check("root ::= (\n  \"a\" |\n  \"b\"\n) c{2,3}\nc ::= [0-9\\x41]", LIST("a12", "bA1A"), LIST("a1", "a1234"));
    check("root ::= \"a\"\n  | \"b\"\n\nx ::= root", LIST("a", "b"), LIST("c"));
    check("root ::= (a?){0,2} \"\\u00e9\\\"\\n\" {,2} .\na ::= \"\" | \"q\"",
          LIST("\xC3\xA9\"\nz", "qq\xC3\xA9\"\n\xE2\x82\xAC"), LIST("\xC3\xA9\"\n\xE2\x82"));
    check("root ::= Rule_2 {2,}\r\nRule_2\t::= [\\u00E9-\\U000000EAa-]", LIST("\xC3\xA9\xC3\xAA", "a-a"),
          LIST("a", "b"));
    check("root ::= \"a\"{2}\n# the end", LIST("aa"), LIST("a", "aaa"));
    /* Sums and products, without left recursion. */
    check("root ::= term (\"+\" term)*\nterm ::= factor (\"*\" factor)*\nfactor ::= [0-9]+ | \"(\" root \")\"",
          LIST("1", "1+2*3", "(1+2)*(3)"), LIST("1+", "(1", "1)", "+1"));
}

TEST(form_grammar_refuses) {
    static const struct {
        const char *grammar, *why;
    } cases[] = {{"", "no rule \"root\""},
                 {"a ::= \"x\"", "no rule \"root\""},
                 {"root ::= b", "no rule \"b\""},
                 {"root ::= \"a\nb\"", "second \""},
                 {"root ::= root \"a\" | \"b\"", "left recursion"},
                 {"root ::= a\na ::= b \"x\" | \"y\"\nb ::= \"\" a", "left recursion"},
                 {"root ::= \"a\" root", "no text is of this form"},
                 {"root = \"a\"", "::="},
                 {"root ::= (\"a\"", "without )"},
                 {"root ::= \"a\")", "without ("},
                 {"root ::= [a", "without ]"},
                 {"root ::= [b-a]", "ends before"},
                 {"root ::= \"\\q\"", "no such escape"},
                 {"root ::= \"\\", "no such escape"},
                 {"root ::= \"\\x4g\"", "hexadecimal digits"},
                 {"root ::= \"\\ud800\"", "no code point"},
                 {"root ::= \"\\U00110000\"", "no code point"},
                 {"root ::= [a-\\q]", "no such escape"},
                 {"root ::= \"a\"{x}", "{n}"},
                 {"root ::= \"a\"{2", "{n}"},
                 {"root ::= \"a\"{3,2}", "out of order"},
                 {"root ::= \"a\"{65536}", "too often"},
                 {"root ::= \"a\"{,99999999999}", "too often"},
                 {"root ::= \"a\"\nroot ::= \"b\"", "there already (line 2"},
                 {"root ::= \"a\" ~", "must stand here"},
                 {"root ::= * \"a\"", "must stand here"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) check_refused(cases[i].grammar, cases[i].why);
}

TEST(form_grammar_limits) {
    char nest[8 + 101 + 4] = "root ::=", class[8 + 513 + 3] = "root ::=", *rules = xcalloc(1, 200000), *to = rules;
    memset(nest + 8, '(', 101);
    strcat(nest, "\"a\"");
    check_refused(nest, "too deep");
    memset(class + 8, 'a', 514);
    class[8] = '[';
    check_refused(class, "too many parts");
    to = stpcpy(to, "root ::= \"a\"\n");
    for (int i = 0; i < 10000; i++) to += sprintf(to, "r%d ::= \"a\"\n", i);
    check_refused(rules, "too many rules");
    free(rules);
}

/* A nest that the walk cannot hold is not begun: what it does take it can end. */
TEST(form_depth_leaves_a_way_out) {
    static const char grammar[] = "root ::= \"[\" root \"]\" | \"x\"";
    FormError e;
    Form *f = form_of_grammar(grammar, strlen(grammar), &e);
    FormScratch *s = form_scratch_new();
    FormWalk *w = form_walk_new(f, s);
    int depth = 0;
    while (depth < 10000 && form_take(w, "[", 1, s)) depth++;
    CHECK_MSG(depth > 60 && depth <= FORM_DEPTH, "%d", depth);
    CHECK(form_take(w, "x", 1, s));
    for (int i = 0; i < depth; i++) CHECK(!form_may_end(w) && form_take(w, "]", 1, s));
    CHECK(form_is_over(w) && !form_take(w, "]", 1, s));
    form_walk_free(w);
    form_scratch_free(s);
    form_release(f);
}

/* Frames are made anew for ever, and those that nothing stands on are forgotten. */
TEST(form_walks_as_long_as_it_likes) {
    static const char grammar[] = "root ::= ([a-z]{1,50} \" \")* \".\"";
    FormError e;
    Form *f = form_of_grammar(grammar, strlen(grammar), &e);
    FormScratch *s = form_scratch_new();
    FormWalk *w = form_walk_new(f, s), *copy = NULL;
    for (int i = 0; i < 20000; i++) {
        char c = (char)(i % 37 == 36 ? ' ' : 'a' + i % 26);
        bool legal = form_test(w, &c, 1, s);
        form_walk_free(copy);
        copy = form_walk_clone(w);
        REQUIRE(legal && form_take(copy, &c, 1, s) && form_take(w, &c, 1, s));
        CHECK(form_may_end(copy) == form_may_end(w));
    }
    CHECK(form_take(w, " ", 1, s) && form_take(w, ".", 1, s) && form_is_over(w));
    CHECK(!form_is_over(copy));
    form_walk_free(w);
    form_walk_free(copy);
    form_scratch_free(s);
    form_release(f);
}
