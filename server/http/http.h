/* http: a small HTTP/1.1 server. It knows HTTP and server-sent events, no JSON and no model.
 *
 * One thread, the loop, reads requests, calls the handler and sends; it never waits. An answer that is not ready is a
 * Task: the connection sleeps until http_wake, then the task is polled again. The loop cuts connections that miss an
 * absolute deadline or stop reading, notices peers that hang up while they wait for tokens (so a client must not
 * half-close its socket before the answer is complete), and pings silent streams.
 *
 * Every byte of a request passes the gate, which refuses whatever two readers might read in two ways. What is
 * refused there, and a connection beyond the limit, gets one answer, the handler's, and the socket closes.
 *
 * Every handler function runs on the loop's thread. */
#ifndef NOISED_HTTP_H
#define NOISED_HTTP_H

#include "base/buffer.h"
#include "base/err.h"

#include <stdint.h>

/* What is borrowed lives as long as the task, the body until handle returns. */
typedef struct HttpRequest {
    const char *method, *path;                        /* decoded, without a query; borrowed, as everything here */
    const char *authorization, *api_key, *fetch_site; /* header values or NULL */
    const char *host, *origin, *request_id, *trace_parent;
    const char *client;                         /* its address, "" where there is none */
    const char *wanted_method, *wanted_headers; /* Access-Control-Request-Method and -Headers */
    const char *body;
    size_t n_body;
    bool crowded; /* all places are taken, and this one is spare: for questions after the server's health */
    void (*wake)(void *waker); /* http_wake, or that of who else hands requests to the routes; any thread */
    void *waker;               /* valid until http_free */
} HttpRequest;

typedef struct HttpReply HttpReply;

/* An answer in the making; self NULL for none. */
typedef struct HttpTask {
    void *self;
    /* Appends to reply->body; true when the answer is complete. A task that is no stream sets reply->status by then, or
     * becomes one: it sets reply->stream, returns true and is polled on. */
    bool (*poll)(void *self, HttpReply *reply);
    void (*close)(void *self); /* once, whether the answer was sent or the client went away */
} HttpTask;

struct HttpReply {
    int status;
    const char *type;   /* Content-Type; NULL: application/json */
    Buffer body;        /* failed: the answer is a 503 about memory; a stream ends that way behind what is there */
    Buffer headers;     /* further lines, each with its CRLF */
    const char *allow;  /* Allow header or NULL */
    const char *policy; /* Content-Security-Policy or NULL; as `type`, it outlives the reply */
    double retry_after; /* seconds; 0: no header, but of a 503, which always has one */
    bool close;         /* close the connection afterwards */
    bool stream;        /* server-sent events: status 200 and headers at once, then whatever the task appends */
    HttpTask task;
};

/* A request and what came of it, for a log. */
typedef struct HttpVisit {
    const char *client;        /* its address, "" where there is none */
    const char *method, *path; /* as in HttpRequest; NULL: refused before that was read */
    const char *request_id;    /* the client's, else the answer's; NULL: neither was there */
    const char *trace_parent;  /* the client's; NULL: none */
    const char *span_id;       /* the answer's part of that trace, 16 digits; NULL: no trace, or no answer began */
    int status;                /* 0: the client went away before the answer began */
    uint64_t bytes;            /* sent, heads and framing included */
    double seconds;            /* since the request's head was there */
    bool stream;
    bool hung_up;         /* the connection ended before the answer did */
    const HttpTask *task; /* not closed yet */
} HttpVisit;

typedef struct HttpHandler {
    void *self;
    /* Sees the head only: true to go on, false after filling the reply. */
    bool (*admit)(void *self, const HttpRequest *request, HttpReply *reply);
    /* Sees the whole request, which stays where it is until the task is closed, and fills the reply, or its task. */
    void (*handle)(void *self, const HttpRequest *request, HttpReply *reply);
    /* The body that tells of an error found here (400, 413, 414, 417, 431, 501, 503, 505). */
    void (*refuse)(void *self, int status, const char *message, HttpReply *reply);
    /* Once per answer, when its head goes out. */
    void (*answered)(void *self, int status);
    /* Once per request, after its answer was sent or its connection ended, unless NULL. */
    void (*visited)(void *self, const HttpVisit *visit);
    /* After each turn of the thread, unless NULL: how long nobody else was served. */
    void (*turned)(void *self, double seconds);
    /* What is said when memory runs out, so constant: the body of a 503, and how a stream ends. */
    const char *no_memory, *no_memory_event;
} HttpHandler;

typedef struct HttpOptions {
    const char *host; /* name or address */
    int port;         /* 0: any free one */
    int listen_fd;    /* a listening TCP socket to take over instead of host and port; -1: none */
    int max_body, max_connections;
    int max_per_address; /* connections of one client; 0: any number */
    int max_bodies;      /* bytes of all bodies that are being received */
    /* Seconds. Head and body from their first byte, idle from the last answer; stall: nothing is taken meanwhile. */
    double head_seconds, body_seconds, idle_seconds, stall_seconds, ping_seconds;
} HttpOptions;

typedef struct Http Http;

/* A socket that listens as the options say, and its port; -1 when that fails. http_start does it where listen_fd is
 * none; who calls it earlier knows of a busy port earlier. */
int http_listen(const HttpOptions *options, int *port, Err *err);
int http_start(Http **out, const HttpOptions *options, const HttpHandler *handler, Err *err);
int http_port(const Http *h);

/* Something may have happened for the task of this connection. Any thread; never blocks for long. A wake that comes too
 * late is harmless. */
void http_wake(void *waker);
void http_wake_all(Http *h);

int http_busy(Http *h); /* requests that are being received or answered */

/* Ends every connection, and the tasks with them; no handler function runs afterwards. http_wake may still be called
 * until http_free. */
void http_stop(Http *h);
void http_free(Http *h);

#endif
