/* load_client: many POST requests at once from one thread, through libcurl's multi interface, with every event of a
 * streamed answer stamped as it arrives. One thread per run; several runs may go on in several threads. */
#ifndef NOISED_LOAD_CLIENT_H
#define NOISED_LOAD_CLIENT_H

#include "base/err.h"

typedef struct LoadRequest {
    const char *url, *body; /* JSON; both borrowed */
    const char *key;        /* for Authorization, borrowed; NULL: none */
    double at;              /* seconds after the start of the run before which it is not sent; never falling */
} LoadRequest;

/* Times are those of now_seconds(). */
typedef struct LoadAnswer {
    int status;        /* 0: no answer, or one that broke off: see error */
    const char *error; /* static text of libcurl; NULL when the answer is whole */
    char *body;        /* [n_body] NUL-terminated; an answer that broke off keeps what came */
    size_t n_body;
    double due, sent, ended; /* due: when it should have been sent, had there been no limit to how many fly at once */
    double *events;          /* [n_events] when each event with text arrived; streams only */
    int n_events;
} LoadAnswer;

/* Runs requests[0..n) in their order, at most `most` at once; returns the seconds it took. answers[n] need not be
 * initialised. */
double load_run(const LoadRequest *requests, LoadAnswer *answers, int n, int most);
void load_answers_free(LoadAnswer *answers, int n);

/* usage.completion_tokens of an answer; the number of its events when the server does not tell. */
int load_answer_tokens(const LoadAnswer *a);

/* The text of a one-choice answer as it stands in the JSON, escapes and all, its events joined; malloc'ed. */
char *load_answer_text(const LoadAnswer *a);

#endif
