/* form: what a text may be, as a graph of bytes, and a walk over it that says byte by byte what may come next. It knows
 * neither tokens' probabilities nor HTTP: text in, legal or not out.
 *
 * A regular expression, a grammar in GBNF and a JSON schema all compile to the same few kinds of nodes (graph.h). A
 * walk holds every way in which the bytes so far may be the beginning of a text of the form: a node and the stack of
 * what has to follow it. Each way can be completed: what has no end, or could not be completed within DEPTH, is never
 * entered. So a text that was legal so far always has a legal byte behind it or may end there, a token that ends inside
 * a code point included.
 *
 * pcre2_dfa_match with PCRE2_DFA_RESTART does the same for expressions without groups that are called; behind a call
 * ((?1), (?&name)) it cannot be resumed: 10.42 takes "[[][]]" for (\[(?1)*\])\z whole, and nothing from its fourth byte
 * on when it comes byte by byte. JSON needs such calls, and a "pattern" in a schema speaks of a string before its
 * escapes. The tests hold regular expressions to PCRE2.
 *
 * Bounds: a byte costs at most VISITS nodes, WAYS ways and FRAMES stacked continuations; a byte that would need more
 * counts as illegal. A form has at most NODES nodes. */
#ifndef NOISED_FORM_H
#define NOISED_FORM_H

#include "base/err.h"
#include "base/json/json.h"

enum { FORM_DEPTH = 256, FORM_WAYS = 512, FORM_VISITS = 4096, FORM_FRAMES = 2048, FORM_NODES = 1 << 16 };

/* Constant once made, for any number of threads; whoever needs it holds it, the last letting go frees it. */
typedef struct Form Form;

/* Where a text that describes a form is wrong: a keyword's path ("properties.a.not") or "", and what is wrong there,
 * with the byte's place in a pattern or a grammar. */
typedef struct FormError {
    char path[128];
    char message[256];
    bool no_memory;
} FormError;

/* NULL, and *e filled. Time and memory in proportion to n, but for the grammar's names times its size. */
Form *form_of_regex(const char *pattern, size_t n, FormError *e); /* regex.h: the whole text matches */
Form *form_of_grammar(const char *text, size_t n, FormError *e);  /* gbnf.h: from the rule "root" */
Form *form_of_schema(const cJSON *schema, FormError *e);          /* schema.h */
Form *form_of_object(FormError *e);                               /* any JSON object */

Form *form_hold(Form *f);   /* f; NULL is fine */
void form_release(Form *f); /* NULL is fine */

/* ---- the walk ---- */

/* One thread's working memory, for forms and vocabularies of any size. */
typedef struct FormScratch FormScratch;
FormScratch *form_scratch_new(void); /* NULL when memory runs out */
void form_scratch_free(FormScratch *s);

/* Where a text stands in its form: some 45 kB. It holds the form. What changes is the walk alone, so walks of one form
 * may go on in several threads. */
typedef struct FormWalk FormWalk;
FormWalk *form_walk_new(Form *f, FormScratch *s); /* at the beginning; NULL when memory runs out */
FormWalk *form_walk_clone(const FormWalk *w);     /* where w stands; NULL when memory runs out */
void form_walk_free(FormWalk *w);                 /* NULL is fine */

/* One space that comes first is no part of the text: of a tokenizer that puts one in front of every text. */
void form_walk_skip_space(FormWalk *w);

/* Whether bytes[0..n) may follow. form_take goes there if so; form_test leaves the walk where it is. */
bool form_take(FormWalk *w, const char *bytes, size_t n, FormScratch *s);
bool form_test(FormWalk *w, const char *bytes, size_t n, FormScratch *s);

bool form_may_end(const FormWalk *w);  /* the text is whole */
bool form_is_over(const FormWalk *w);  /* and nothing may follow */
bool form_is_stuck(const FormWalk *w); /* neither: of a beginning that is beyond the bounds */

#endif
