/* connection: the inside of http, whose modules stand on each other in this order:
 *
 *     connection    what a socket and its request are, and how they end
 *     recv          what the library reads
 *     library       what the library calls: answers
 *     listen        where connections come in
 *     loop          the thread, its beginning and end
 *
 * One HttpConnection per socket, from an array that lives as long as the Http, so a late http_wake finds at worst
 * another connection, which then looks at its task once for nothing. libmicrohttpd owns a socket from
 * MHD_add_connection until it closes it; then a copy of the descriptor lingers, lest a reset destroy the answer.
 *
 * All of it is the loop's thread's, but for http_connection_resume. */
#ifndef NOISED_HTTP_CONNECTION_H
#define NOISED_HTTP_CONNECTION_H

#include "base/tcp.h"
#include "server/gate/gate.h"
#include "server/http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

typedef enum Phase {
    PHASE_FREE,
    PHASE_IDLE,  /* between requests */
    PHASE_HEAD,  /* some of a head is here, or the connection is new */
    PHASE_BODY,  /* the library has heard of the request, and sleeps */
    PHASE_READY, /* refused before: the library may hear of it */
    PHASE_REPLY,
    PHASE_LINGER /* no longer the library's: what still comes is dropped */
} Phase;

enum { HTTP_LINGER = 2 }; /* seconds, at most */

typedef struct HttpConnection {
    struct Http *http;
    struct HttpConnection *next_free;
    struct MHD_Connection *mhd;
    int fd;
    char client[TCP_NAME_BYTES];
    Phase phase;
    double deadline; /* of every phase but REPLY, where it is the time of the next ping */
    double opened_at;
    bool half_closed; /* the peer will send no more */
    bool gone;        /* or is to be taken for gone */
    uint64_t told;    /* bytes written to the socket before this answer */
    size_t dropped;   /* while lingering */
    /* ---- what the library reads ---- */
    Gate gate;
    bool left;        /* bytes were left in the socket */
    size_t passed;    /* bytes that the library is to find now; 0: none */
    double served_in; /* the turn of the loop, by its beginning, in which something was last read */
    /* ---- the request in hand ---- */
    bool in_hand;        /* something of it has been judged */
    HttpRequest request; /* in the gate's memory */
    const char *request_id;
    char drawn_id[33]; /* 128 bits in hexadecimal */
    double asked_at;   /* when the head was there */
    HttpReply reply;
    size_t sent;      /* of reply.body; streams only */
    bool begun;       /* the answer's head is with the library */
    bool ended;       /* all of the stream is in reply.body */
    atomic_bool news; /* the task may have something, since this was last cleared */
    atomic_bool suspended;
} HttpConnection;

/* Places beyond the limit: for who asks after the server's health, and for those who are told to come later. */
enum { HTTP_SPARE_PLACES = 16 };

struct Http {
    Buffer no_memory, no_files; /* made at start: whole answers, for when there is none */
    HttpOptions options;
    HttpHandler handler;
    struct MHD_Daemon *daemon;
    int listen_fd, epoll_fd, port;
    int spare_fd; /* given up for a moment when no descriptor is left, to refuse with */
    pthread_t loop;
    atomic_bool stopping;
    atomic_int n_busy;           /* connections in BODY, READY or REPLY */
    HttpConnection *connections; /* [HTTP_SPARE_PLACES + n_connections], the spare ones first */
    int n_connections;
    atomic_int n_used;                     /* connections[n_used..] have never been touched: they cost no memory */
    HttpConnection *first_free, *arriving; /* arriving: while MHD_add_connection is at work */
    pthread_mutex_t mutex;                 /* whoever suspends or resumes has it */
    double turn_began, reported_at;
    size_t n_body_bytes, most_body_bytes; /* of all bodies in flight, now and since memory was last given back */
};

void http_connection_open(HttpConnection *c, int fd); /* takes the socket; nobody watches it yet */
bool http_connection_is_spare(const HttpConnection *c);
void http_connection_set_phase(HttpConnection *c, Phase phase, double seconds);

/* The library leaves it alone until there are news; false when there have been some since c->news was cleared. */
bool http_connection_suspend(HttpConnection *c);
void http_connection_resume(HttpConnection *c); /* any thread: there are */

void http_connection_drop_body(HttpConnection *c); /* and what it takes of the room for all bodies */

/* The request and all that belongs to it, if there is one: the handler hears of the visit. */
void http_connection_end_request(HttpConnection *c, bool hung_up);

/* c->fd is nobody else's any more: it is closed when the peer has read what it was sent, or after HTTP_LINGER. */
void http_connection_linger(HttpConnection *c);
void http_connection_linger_on(HttpConnection *c); /* something has come */
void http_connection_cut(HttpConnection *c);       /* at once, whatever it is doing */
void http_connection_release(HttpConnection *c);   /* its place, after its socket is closed */

#endif
