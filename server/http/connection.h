/* connection: the inside of http, whose modules stand on each other in this order:
 *
 *     connection    what a socket and its request are, and how they end
 *     library       what libmicrohttpd reads, and what it calls
 *     listen        where connections come in
 *     loop          the thread, its beginning and its end
 *
 * One HttpConnection per socket, from an array that lives as long as the Http, so a late http_wake finds at worst
 * another connection, which then looks at its task once for nothing. libmicrohttpd owns a socket from
 * http_library_take until it closes it; then a copy of the descriptor lingers, lest a reset destroy the answer.
 *
 * All of it is the loop's thread's, but for what http_wake needs. */
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

enum { HTTP_AWAKE, HTTP_WOKEN, HTTP_ASLEEP };
enum { HTTP_LINGER = 2 }; /* seconds, at most */

typedef struct HttpConnection {
    struct Http *http;
    struct HttpConnection *next_free, *next_woken;
    int fd;
    char client[TCP_NAME_BYTES];
    Phase phase;
    double deadline; /* of every phase but REPLY, where it is the time of the next ping */
    double opened_at;
    bool half_closed; /* the peer will send no more */
    bool gone;        /* or is to be taken for gone */
    uint64_t told;    /* bytes written to the socket before this answer */
    /* ---- what the library reads ---- */
    struct MHD_Connection *mhd; /* NULL: the socket is not the library's, or no longer */
    Gate gate;
    size_t passed;    /* bytes of a head that it is to find now; 0: none */
    bool left;        /* bytes were left in the socket */
    double served_in; /* the turn of the loop, by its beginning, in which something last passed */
    char *pool;       /* the library's memory for it, which begins where it first reads to; NULL: it has not */
    bool wiped;       /* all of that takes room: an answer has been sent since it was last given back */
    /* ---- what is sent past it ---- */
    Buffer out;
    const char *rest; /* [n_rest] of it, or of what is said without memory */
    size_t n_rest;
    size_t dropped; /* while lingering */
    /* ---- the request in hand ---- */
    bool in_hand;
    HttpRequest request; /* in the library's memory, until the request is completed */
    char drawn_id[33];   /* 128 bits in hexadecimal */
    char span_id[17];    /* 64 bits of the same, of an answer that has begun and belongs to a trace; else empty */
    Buffer body;
    HttpReply reply;
    size_t sent; /* of reply.body; streams only */
    size_t held; /* bytes of an answer, no stream, that the library has whole until all are sent; since: */
    double held_since;
    bool begun;       /* the answer's head is with the library */
    bool ended;       /* all of the stream is in reply.body */
    atomic_int sleep; /* HTTP_WOKEN: there is news since its task was last polled */
    double asked_at;  /* when the head was there */
} HttpConnection;

/* Places beyond the limit: for questions after the server's health, and for answers 503 to all else. */
enum { HTTP_SPARE_PLACES = 16 };

struct Http {
    char no_memory[1024]; /* made at start: the whole answer */
    HttpOptions options;
    HttpHandler handler;
    struct MHD_Daemon *daemon;
    int listen_fd, epoll_fd, port;
    int nudge_fd; /* whatever is written to it ends the loop's wait */
    int spare_fd; /* given up for a moment when no descriptor is left, to refuse with */
    pthread_t loop;
    _Atomic(HttpConnection *) woken; /* since the loop last looked; all of them sleep in the library */
    atomic_bool stopping;
    atomic_int n_busy;           /* connections in BODY or REPLY */
    HttpConnection *connections; /* [HTTP_SPARE_PLACES + n_connections], the spare ones first */
    int n_connections;
    atomic_int n_used; /* connections[n_used..] have never been touched: they cost no memory */
    HttpConnection *first_free;
    unsigned n_refusals; /* that are not in the log yet, */
    unsigned n_crowding; /* those of them by --max-connections-per-address */
    double reported_at, turn_began;
    int n_wiped;                          /* connections */
    size_t n_body_bytes, most_body_bytes; /* of all bodies in flight, now and since memory was last given back */
    size_t n_held;                        /* of all connections' `held` */
};

void http_connection_open(HttpConnection *c, int fd, const struct sockaddr *client); /* takes the socket */
bool http_connection_is_spare(const HttpConnection *c);
void http_connection_set_phase(HttpConnection *c, Phase phase, double seconds);

void http_connection_suspend(HttpConnection *c); /* until it is woken, or at once if it has been */
void http_connection_drop_body(HttpConnection *c);
void http_connection_hold(HttpConnection *c, size_t n); /* may cut others, who have been at theirs for longer */

/* The fields of the answer that c->reply holds, each with its CRLF, but for those about framing and the time. */
void http_connection_write_fields(HttpConnection *c, Buffer *out);

/* Answers on the socket itself and ends the connection: with what the handler says of such a request, or with what
 * c->reply holds. The library then hears that the peer has gone. */
void http_refuse(HttpConnection *c, int status, const char *why);
void http_refuse_as_filled(HttpConnection *c);

void http_connection_end_request(HttpConnection *c, bool hung_up);  /* the handler hears of it; all it had is freed */
void http_connection_linger(HttpConnection *c);                     /* until the peer has read, or HTTP_LINGER */
void http_connection_linger_on(HttpConnection *c, uint32_t events); /* epoll's */
void http_connection_cut(HttpConnection *c);                        /* at once, whatever it is doing */
void http_connection_release(HttpConnection *c);                    /* its place, after its socket is closed */

#endif
