/* http_client: requests to a Daemon, through libcurl and, for what no client would send, through a bare socket. */
#ifndef NOISED_TEST_HTTP_CLIENT_H
#define NOISED_TEST_HTTP_CLIENT_H

#include "tests/support/daemon.h"

#include <cjson/cJSON.h>

/* All of it is there until the case ends. */
typedef struct Answer {
    int status;    /* 0: no answer */
    char *body;    /* NUL-terminated */
    char *headers; /* all lines */
    cJSON *json;   /* NULL when the body is none */
} Answer;

Answer http_get(const Daemon *d, const char *path);
Answer http_post(const Daemon *d, const char *path, const char *json);
/* header: one more line or NULL; body NULL: none. method NULL: GET or, with a body, POST. */
Answer http_request(const Daemon *d, const char *method, const char *path, const char *header, const char *body);
void answer_free(Answer *a); /* before that: for who asks for hours */

Answer metrics_now(const Daemon *d); /* GET /metrics, when what was read before is too old to be told again */

/* A request that must be refused; or taken, where the status is 200. */
typedef struct Bad {
    const char *body;
    int status;
    const char *param; /* "" for null */
} Bad;

/* Checks the status, all four keys, the type that goes with the status, and the param ("" for null). */
void answer_check_error(const Answer *a, int status, const char *param, const char *what);

/* That each body, sent to the path, is refused so or taken. */
void check_bodies(const Daemon *d, const char *path, const Bad *bad, size_t n);

/* Waits until /health tells that the daemon drains, which it was told to; this new request must be refused then. False
 * when there is no /health. */
bool drain_begins(const Daemon *d, const char *path, const char *json);

/* A header's value, malloc'ed; NULL when there is none. */
char *answer_header(const Answer *a, const char *name);

/* "choices.0.text" and the like: numbers index arrays. NULL when it is not there. */
const cJSON *json_at(const cJSON *root, const char *path);
const char *json_text(const cJSON *root, const char *path); /* NULL when it is no string */
bool json_says(const cJSON *root, const char *path, const char *text);
double json_number(const cJSON *root, const char *path); /* NaN when it is no number */
char *json_raw(const cJSON *root, const char *path);     /* printed, malloc'ed; NULL when it is not there */

/* Equal when printed; both are shown when not. */
bool json_same(const cJSON *a, const char *path_a, const cJSON *b, const char *path_b);
const char *answer_text(const Answer *a, int index); /* of a choice, "" when there is none */

/* A text/event-stream body cut into events. */
typedef struct Events {
    cJSON **data; /* [n] the JSON events in order */
    int n;
    bool done;      /* ends with exactly one [DONE] */
    bool malformed; /* anything but `data:` events and comments, or an event that is no valid UTF-8 JSON */
    int comments;
} Events;

Events events_parse(const char *body);
/* Of a stream whose events have a line in front that names them, which must be their "type". */
Events events_parse_named(const char *body);
void events_free(Events *e);
char *events_text(const Events *e, int index);         /* the deltas of a choice joined, malloc'ed */
const char *events_finish(const Events *e, int index); /* the only finish_reason, NULL for none or several */

/* A connection that sends what it is told. -1 when it cannot connect. */
int raw_connect(const Daemon *d);
bool raw_send(int fd, const char *text, size_t n);
/* Sends POST /v1/completions; the socket. */
int raw_completion(const Daemon *d, const char *body);
/* What comes within `seconds` or until the server closes, malloc'ed and NUL-terminated. *closed may be NULL. */
char *raw_read(int fd, double seconds, bool *closed);
/* What comes until `what` has come, for PATIENCE. */
char *raw_read_until(int fd, const char *what);
bool raw_expect(int fd, const char *what);

/* Bytes as they come from libcurl: data starts malloc'ed and empty, and ends with a NUL. */
typedef struct Text {
    char *data;
    size_t n;
} Text;
size_t text_collect(char *data, size_t size, size_t n, void *text); /* CURLOPT_WRITEFUNCTION */
Answer answer_of(long status, Text body, Text headers);             /* their data is its own from then on */

int token_of(const Daemon *d, const char *text); /* which must be one */

#endif
