/* http_connection: the inside of http. One HttpConnection per socket, from an array that lives as long as the Http, so
 * a late http_wake finds at worst another connection, which then looks at its task once for nothing.
 *
 * A connection is a machine that is run until it has to wait for its peer, its task or the clock; everything but the
 * list of woken ones belongs to the loop's thread. */
#ifndef NOISED_HTTP_CONNECTION_H
#define NOISED_HTTP_CONNECTION_H

#include "server/http/body.h"
#include "server/http/head.h"
#include "server/http/http.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

typedef enum Phase {
    PHASE_FREE,
    PHASE_IDLE, /* between requests */
    PHASE_HEAD, /* some of a head is here, or the connection is new */
    PHASE_BODY,
    PHASE_REPLY,
    PHASE_LINGER /* answered for the last time: what still comes is dropped, lest a reset destroy the answer */
} Phase;

enum { HTTP_ID_BYTES = 33 }; /* 128 bits in hexadecimal, and the NUL */

typedef struct HttpConnection {
    struct Http *http;
    bool woken; /* in http->woken; guarded by http->mutex */
    int fd;
    char client[INET6_ADDRSTRLEN];
    uint32_t events; /* what epoll watches the socket for */
    Phase phase;
    double deadline; /* of every phase but REPLY, where it is the time of the next ping */
    bool gone;       /* the peer has closed its side */
    uint64_t acked;  /* bytes that the peer has confirmed */
    double acked_at; /* 0: not looked yet */
    Buffer in;       /* received and not yet taken */
    size_t seen;     /* of `in`, by head_end */
    char *head_text; /* of the request in hand, malloc'ed */
    Head head;       /* in head_text */
    char drawn_id[HTTP_ID_BYTES];
    BodyReader reader;
    Buffer body;
    HttpReply reply;
    bool keep;         /* another request may follow */
    bool begun, ended; /* the answer's head is in `out`; all of it is */
    size_t dropped;    /* while lingering */
    Buffer out;        /* to be sent, from `sent` on */
    size_t sent;
    const char *tail; /* [n_tail] constant, sent behind `out`: what is said when memory runs out */
    size_t n_tail;
    double asked_at; /* when the head was there */
    uint64_t bytes;  /* of this answer that the socket has taken */
    struct HttpConnection *next_free;
} HttpConnection;

enum { HTTP_REFUSALS = 8 }; /* places beyond the limit, for connections that are told of it */

struct Http {
    /* Made at start: the whole answer, of which the first no_memory_head bytes are its head; the end of a stream. */
    Buffer no_memory, no_memory_chunk;
    size_t no_memory_head;
    HttpOptions options;
    HttpHandler handler;
    int listen_fd, epoll_fd, nudge_fd, port; /* nudge_fd is readable while the list of woken ones is not empty */
    int spare_fd;                            /* given up for a moment when no descriptor is left, to refuse with */
    bool deaf;                               /* listen_fd is not watched until the next tick */
    pthread_t loop;
    atomic_bool stopping;
    atomic_int n_busy;           /* connections in BODY or REPLY */
    HttpConnection *connections; /* [n_connections + HTTP_REFUSALS] */
    int n_connections;
    atomic_int n_used; /* connections[n_used..n_connections) have never been touched: they cost no memory */
    unsigned n_refusals, n_reported; /* so far, and in the log */
    double reported_at;
    HttpConnection *first_free;
    pthread_mutex_t mutex;
    HttpConnection **woken, **waking; /* [n_connections + HTTP_REFUSALS] each; woken is guarded, waking the loop's */
    int n_woken;
};

/* ---- connection.c; all of it for the loop's thread ---- */

void http_connection_open(HttpConnection *c, int fd);
void http_connection_close(HttpConnection *c);                  /* PHASE_FREE is fine */
void http_connection_ready(HttpConnection *c, uint32_t events); /* epoll's */
void http_connection_run(HttpConnection *c);                    /* its task may have something */
void http_connection_look(HttpConnection *c, double now);       /* at its deadlines */
void http_connection_turn_away(HttpConnection *c);              /* with a 503, before any request is read */

/* ---- reply.c ---- */

const char *http_draw_id(char out[HTTP_ID_BYTES]); /* for a request without one; returns out */

/* The status line and the fields, with the id, which the head must have. */
void http_reply_head(Buffer *out, const HttpReply *r, const Head *head, bool keep);
void http_reply_chunk(Buffer *out, const Buffer *data); /* of no bytes: nothing */

/* ---- listen.c ---- */

int http_affordable_connections(int wanted);
void http_accept(struct Http *h);
int http_spare_file(void);
void http_listen_watch(struct Http *h, bool on);
void http_report_refusals(struct Http *h, double now); /* in the log, now and then */

/* ---- loop.c ---- */

int http_loop_start(struct Http *h, Err *err);
void http_loop_stop(struct Http *h); /* and every connection */

#endif
