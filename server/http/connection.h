/* http_connection: the inside of http. One HttpConnection per socket, from an array that lives as long as the Http, so
 * a late http_wake finds at worst another connection, which then looks at its task once for nothing. */
#ifndef NOISED_HTTP_CONNECTION_H
#define NOISED_HTTP_CONNECTION_H

#include "base/err.h"
#include "server/http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

typedef enum Phase { PHASE_FREE, PHASE_IDLE, PHASE_HEAD, PHASE_BODY, PHASE_REPLY } Phase;

typedef struct HttpConnection {
    struct Http *http;
    /* ---- guarded by mutex ---- */
    pthread_mutex_t mutex;
    struct MHD_Connection *mhd; /* NULL while free */
    int fd;
    uint32_t generation; /* counts the sockets that this place has had */
    Phase phase;         /* written by libmicrohttpd's thread only, so that thread may read it without the mutex */
    double deadline;     /* of IDLE, HEAD and BODY */
    bool waiting;        /* suspended: whoever clears it resumes the connection */
    bool signalled;      /* woken since the last poll began */
    bool gone;           /* the peer has closed its side */
    bool ping;           /* a ping is due */
    double quiet_since;  /* suspended without having sent anything since */
    uint64_t acked;      /* bytes that the peer has confirmed */
    double acked_at;
    /* ---- libmicrohttpd's thread only ---- */
    int uri_status; /* 0, or what to refuse the request line with */
    Buffer body;
    size_t n_received; /* of the body, kept or not */
    HttpReply reply;
    size_t sent; /* of reply.body, streams only */
    bool ended, wrote;
    struct HttpConnection *next_free;
} HttpConnection;

struct Http {
    HttpOptions options;
    HttpHandler handler;
    struct MHD_Daemon *daemon;
    int listen_fd, epoll_fd, port;
    pthread_t loop, watcher; /* loop: libmicrohttpd's thread */
    int nudge_fd;            /* readable: the loop has something to look at */
    atomic_bool nudged;      /* nudge_fd is or will be readable */
    atomic_bool stopping;
    HttpConnection *connections; /* [n_connections] */
    int n_connections;
    atomic_int n_used; /* connections[0..n_used) have been in use */
    HttpConnection *first_free;
};

/* Resumes the connection if it is suspended. The caller holds the mutex. */
void http_connection_resume(HttpConnection *c);

/* ---- http_loop.c: the thread that all callbacks of libmicrohttpd run on ---- */

int http_loop_start(struct Http *h); /* -1 with errno set */
void http_loop_stop(struct Http *h); /* once h->stopping is set */
void http_loop_nudge(struct Http *h);

/* ---- http_listen.c ---- */

int http_affordable_connections(int wanted);

/* ---- http_gate.c: framing that libmicrohttpd 0.9.75 lets through ---- */

enum { HTTP_MAX_URI = 2048, HTTP_MAX_HEAD = 16384, HTTP_MAX_HEADERS = 64 };

/* The raw request target: 0 or the status to refuse it with. */
int http_gate_uri(const char *uri);

/* The parsed head: 0, or a status and why. Whatever is refused must close the connection, for nobody knows where the
 * next request would begin. */
int http_gate_head(struct MHD_Connection *mhd, const char *method, const char *version, size_t max_body,
                   const char **why);

/* ---- http_watch.c ---- */

int http_watch_start(struct Http *h, Err *err);
void http_watch_stop(struct Http *h); /* the thread; connections may still be removed until epoll_fd is closed */
void http_watch_add(HttpConnection *c);
void http_watch_remove(HttpConnection *c);

#endif
