/* page: the daemon with its page open in a browser, and what every test of it asks. */
#ifndef NOISED_TEST_PAGE_H
#define NOISED_TEST_PAGE_H

#include "tests/browser/webdriver.h"
#include "tests/support/http_client.h"

/* A short request as a fragment, without its noise seeds, and as fields. */
#define PAGE_SHORT "#prompt=The+river&max_tokens=20&seed=3&temperature=0.5&noise_scale=1&repetition_penalty=1"
extern const char page_short_fields[];

typedef struct Page {
    Browser browser;
    Daemon daemon;
    char url[64]; /* ends in a slash */
} Page;

/* Serves the folder and opens the page with this fragment ("" or "#…"). False (and a failed test) otherwise. */
bool page_open(Page *p, const char *dir, const char *options, const char *fragment);

/* Fails the test unless the console has no errors and nobody else was asked. Those of a request that the server
 * refused, which the browser reports by itself, may be there when they are expected. */
void page_close(Page *p, bool refusals);

/* An expression of the page as a number (true is 1) and as what it is taken for; a script, whatever it returns. */
double page_number(Page *p, const char *expression);
bool page_is(Page *p, const char *expression);
void page_run(Page *p, const char *script);
void page_unfold(Page *p); /* everything that can be */

#define PAGE_DONE "document.getElementById('status').textContent === 'Done.'"

/* Waits until nothing runs and every column has been answered. */
bool page_wait_done(Page *p, int columns);
char *page_column_text(Page *p, int column); /* from 1; what the model wrote */
char *page_column_foot(Page *p, int column);
/* What the server answers to a column's request with this noise seed and otherwise the fields; that the column shows
 * it; that its foot holds the words. */
char *page_answer_of(const Page *p, const char *fields, int noise_seed);
void page_check_column(Page *p, int column, const char *fields, int noise_seed);
void page_check_foot(Page *p, int column, const char *expected);
char *page_text_of(Page *p, const char *selector); /* textContent, "" when it is not there */

char *page_axe(void); /* axe-core's source, malloc'ed; NULL when npm has not brought it */
void page_check_axe(Page *p, const char *axe, const char *what); /* no finding */

#endif
