/* http_connection: the inside of http. One HttpConnection per socket, from an array that lives as long as the Http, so
 * a late http_wake finds at worst another connection, which then looks at its task once for nothing.
 *
 * libmicrohttpd owns a socket from MHD_add_connection on. It reads by recv, which is ours (gate.c): it gets the bytes
 * of requests that head.c and body.c have judged, written anew, and nothing else, so that it never has a reason to
 * refuse anything. What is refused, the gate answers; then the library hears that the peer has gone and closes in
 * silence, and a copy of the descriptor lingers, lest a reset destroy the answer.
 *
 * Everything but the list of woken connections belongs to the loop's thread. */
#ifndef NOISED_HTTP_CONNECTION_H
#define NOISED_HTTP_CONNECTION_H

#include "base/tcp.h"
#include "server/http/body.h"
#include "server/http/head.h"
#include "server/http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

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
    bool woken; /* in http->woken; guarded by http->mutex */
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
    /* ---- the gate's ---- */
    size_t n_looked_at;            /* of a head that is not there yet, by head_end */
    size_t passed;                 /* bytes of a head that the library is to find now; 0: none */
    bool has_body, chunked, whole; /* of the request that has passed; whole: with its body */
    bool rest;                     /* bytes were left in the socket */
    double served_in; /* the turn of the loop, by its beginning, in which the gate last let something through */
    BodyReader reader;
    Buffer out;     /* of a refusal, what the socket has not taken */
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
    struct HttpConnection *next_free;
} HttpConnection;

/* Places beyond the limit: for who asks after the server's health, and for those who are told to come later. */
enum { HTTP_SPARE_PLACES = 16 };
enum { HTTP_MAX_FILES = 1 << 20 };

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
    HttpConnection *connections; /* [n_connections + HTTP_SPARE_PLACES] */
    int n_connections;
    atomic_int n_used; /* connections[n_used..n_connections) have never been touched: they cost no memory */
    unsigned n_refusals, n_reported; /* so far, and in the log */
    double reported_at, watched_at;
    double turn_began;
    size_t n_body_bytes, most_body_bytes;  /* of all bodies in flight, now and since memory was last given back */
    HttpConnection *first_free, *arriving; /* arriving: while MHD_add_connection is at work */
    pthread_mutex_t mutex;
    HttpConnection **woken,
        **waking; /* [n_connections + HTTP_SPARE_PLACES] each; woken is guarded, waking the loop's */
    int n_woken;
};

/* ---- connection.c; all of it for the loop's thread ---- */

struct MHD_Daemon *http_library_start(struct Http *h);
void http_connection_open(HttpConnection *c, int fd); /* takes the socket; nobody watches it yet */
void http_connection_linger(HttpConnection *c);       /* until the peer has read what it was told, or a while is over */
void http_connection_event(HttpConnection *c, uint32_t events); /* epoll's, of a hang-up or while it lingers */
void http_connection_cut(HttpConnection *c);                    /* at once, whatever it is doing */
void http_connection_resume(HttpConnection *c);                 /* its task may have something */
void http_connection_look(HttpConnection *c, double now);       /* at its deadline */
void http_connection_watch(HttpConnection *c, double now);      /* for peers that take nothing */
void http_connection_drop_body(HttpConnection *c);
void http_connection_set_phase(HttpConnection *c, Phase phase, double seconds);

/* ---- gate.c ---- */

void http_gate_keep(int fd, HttpConnection *c); /* recv(fd) is judged from here on; c NULL: no longer */
void http_gate_ring(HttpConnection *c);         /* the library looks once more for what has been withheld */

/* ---- reply.c ---- */

const char *http_draw_id(char out[HTTP_ID_BYTES]); /* for a request without one; returns out */

/* The library's answer; NULL when memory runs out. It takes the body's bytes. */
struct MHD_Response *http_reply_response(HttpConnection *c, MHD_ContentReaderCallback stream);

/* Answers on the socket itself, past the library, and ends the connection. The first says what the handler says of such
 * a request; the second what c->reply holds. */
void http_refuse(HttpConnection *c, int status, const char *why);
void http_refuse_as_filled(HttpConnection *c);
bool http_send_rest(HttpConnection *c); /* of it; false when the socket takes no more now, else nothing follows */
void http_tell(HttpConnection *c, bool hung_up); /* the handler, of the answer that has ended */

/* ---- listen.c ---- */

int http_affordable_connections(int wanted);
void http_accept(struct Http *h);
void http_welcome(struct Http *h, int fd, const struct sockaddr *address, socklen_t n); /* takes fd */
int http_spare_file(void);
void http_listen_watch(struct Http *h, bool on);
void http_report_refusals(struct Http *h, double now); /* in the log, now and then */
void http_release(HttpConnection *c);                  /* its place, after its socket is closed */
bool http_is_spare(const HttpConnection *c);

/* ---- loop.c ---- */

int http_loop_start(struct Http *h, Err *err);
void http_loop_stop(struct Http *h); /* and every connection */

#endif
