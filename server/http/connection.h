/* connection: the inside of http, whose modules stand on each other in this order:
 *
 *     connection    what a socket and its request are, and how they end
 *     reply         answers, the library's and those that are sent past it
 *     recv          what the library reads
 *     library       what the library calls
 *     listen        where connections come in
 *     loop, start   the thread; its beginning and end
 *
 * One HttpConnection per socket, from an array that lives as long as the Http, so a late http_wake finds at worst
 * another connection, which then looks at its task once for nothing. libmicrohttpd owns a socket from
 * MHD_add_connection until it closes it; then a copy of the descriptor lingers, lest a reset destroy the answer.
 *
 * All of it is the loop's thread's, but for the list of those that are woken. */
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
    PHASE_IDLE, /* between requests */
    PHASE_HEAD, /* some of a head is here, or the connection is new */
    PHASE_BODY,
    PHASE_REPLY,
    PHASE_REFUSED, /* answered by us; the library has not noticed yet */
    PHASE_LINGER   /* no longer the library's: what is left is sent, what still comes is dropped */
} Phase;

enum { HTTP_ID_BYTES = 33 }; /* 128 bits in hexadecimal, and the NUL */

typedef struct HttpConnection {
    struct Http *http;
    atomic_bool woken; /* and in the list */
    struct HttpConnection *next_woken, *next_free;
    int fd;
    char client[TCP_NAME_BYTES];
    Phase phase;
    double deadline; /* of every phase but REPLY, where it is the time of the next ping */
    double opened_at;
    bool half_closed; /* the peer will send no more */
    bool gone;        /* or is to be taken for gone */
    TcpProgress seen; /* by the peer, when last looked at */
    double seen_at;   /* 0: not looked yet */
    uint64_t told;    /* bytes written to the socket before this answer */
    /* ---- what the library reads ---- */
    Gate gate;
    size_t passed;    /* bytes of a head that it is to find now; 0: none */
    bool left;        /* bytes were left in the socket */
    double served_in; /* the turn of the loop, by its beginning, in which something last passed */
    /* ---- what is sent past it ---- */
    Buffer out;
    const char *rest; /* [n_rest] of it, or of what is said without memory */
    size_t n_rest;
    size_t dropped; /* while lingering */
    /* ---- the request in hand ---- */
    struct MHD_Connection *mhd; /* NULL: the socket is not the library's, or no longer */
    bool in_hand;
    HttpRequest request; /* in the library's memory, until the request is completed */
    const char *request_id;
    char drawn_id[HTTP_ID_BYTES];
    Buffer body;
    HttpReply reply;
    size_t sent; /* of reply.body; streams only */
    bool begun;  /* the answer's head is with the library */
    bool ended;  /* all of the stream is in reply.body */
    bool suspended, ping;
    double asked_at; /* when the head was there */
} HttpConnection;

/* Places beyond the limit: for who asks after the server's health, and for those who are told to come later. */
enum { HTTP_SPARE_PLACES = 16 };

struct Http {
    Buffer no_memory; /* made at start: the whole answer */
    HttpOptions options;
    HttpHandler handler;
    struct MHD_Daemon *daemon;
    int listen_fd, epoll_fd, nudge_fd, port; /* nudge_fd is readable while the list of woken ones is not empty */
    int spare_fd;                            /* given up for a moment when no descriptor is left, to refuse with */
    bool deaf;                               /* listen_fd is not watched until the next tick */
    pthread_t loop;
    atomic_bool stopping;
    atomic_int n_busy;           /* connections in BODY or REPLY */
    HttpConnection *connections; /* [HTTP_SPARE_PLACES + n_connections], the spare ones first */
    int n_connections;
    atomic_int n_used; /* connections[n_used..] have never been touched: they cost no memory */
    HttpConnection *first_free;
    HttpConnection *_Atomic first_woken;
    HttpConnection *arriving;        /* while MHD_add_connection is at work */
    unsigned n_refusals, n_reported; /* so far, and in the log */
    double reported_at, watched_at, turn_began;
    size_t n_body_bytes, most_body_bytes; /* of all bodies in flight, now and since memory was last given back */
};

void http_connection_open(HttpConnection *c, int fd); /* takes the socket; nobody watches it yet */
bool http_connection_is_spare(const HttpConnection *c);
void http_connection_set_phase(HttpConnection *c, Phase phase, double seconds);

void http_connection_resume(HttpConnection *c); /* its task may have something */
void http_connection_drop_body(HttpConnection *c);
void http_connection_forget(HttpConnection *c); /* the request and all that belongs to it */

/* `rest` goes out as far as the socket takes it; false when more is left, otherwise nothing follows. */
bool http_connection_send_rest(HttpConnection *c);

enum { HTTP_LINGER = 2 };                                           /* seconds */
void http_connection_linger(HttpConnection *c);                     /* until the peer has read, or HTTP_LINGER */
void http_connection_linger_on(HttpConnection *c, uint32_t events); /* epoll's */
void http_connection_cut(HttpConnection *c);                        /* at once, whatever it is doing */
void http_connection_release(HttpConnection *c);                    /* its place, after its socket is closed */

#endif
