/* house: the daemon under fault.so, who asks it, and what they hear. */
#ifndef NOISED_TEST_HOUSE_H
#define NOISED_TEST_HOUSE_H

#include "tests/faults/faults.h"
#include "tests/support/http_client.h"

typedef struct House {
    const char *dir;
    char log[300]; /* what the daemon says is in log, a path */
    Daemon daemon;
    Fault *fault;
    int files; /* its descriptors when nobody is there */
} House;

/* Ready, with everything at rest. False (and a failed test) when it does not come up. */
bool house_open(House *h, const char *model, const char *options);
void house_close(House *h);
bool house_is_ready(const House *h); /* false too where nobody listens: a start may end behind its first words */

typedef struct Question {
    const char *name, *path, *body; /* body "": a GET */
} Question;

typedef struct Heard {
    int status;  /* 0: not even a status line came */
    char *said;  /* the body without what differs by nature; of a stream its text; malloc'ed */
    bool whole;  /* all of it came, as its framing says */
    bool closed; /* or else it is still open */
    bool error;  /* an error, or a stream that ends with one */
    bool stream, done;
} Heard;

int house_ask(const House *h, const Question *q); /* a socket; -1 (and a failed test) when nobody listens */
/* The rest of an answer of which `first`, malloc'ed, has come. */
Heard house_hear(int fd, char *first, double seconds);
Heard house_answer(const House *h, const Question *q);

/* All of it; good NULL: whatever it says. */
bool heard_right(const Heard *a, const char *good);
/* A stream that ends with an error, or a connection that ends: what came before is the beginning of what is good. */
bool heard_cut(const Heard *a, const char *good);

/* A failed test, with the end of what the daemon has said. */
void house_fail(const House *h, const char *when, const char *what);

/* No descriptor has been lost. */
void house_check_files(const House *h, const char *when);
/* Nothing is asked for, so nothing is done. */
void house_check_rest(const House *h, const char *when);

static const double FAULT_PATIENCE = 20; /* seconds */

#endif
