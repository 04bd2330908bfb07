/* server: what every request may use. */
#ifndef NOISED_SERVER_H
#define NOISED_SERVER_H

#include "server/auth.h"
#include "server/browser.h"
#include "server/quota.h"
#include "server/versions.h"
#include "server/workers.h"

/* The last answer of /metrics, for all who ask within a second. */
typedef struct Scrape {
    pthread_mutex_t mutex; /* guards what follows */
    Buffer text;
    double printed_at;
} Scrape;

typedef struct Server {
    Versions versions;
    Metrics metrics;
    Workers *workers;
    Auth *auth;
    Quota quota;
    ApiModels models;
    BrowserRules browser;
    double started; /* seconds since 1970 */
    bool access_log;
    int max_body, max_bodies;
    atomic_size_t n_waiting;      /* bytes of bodies that wait for a worker */
    atomic_uint_least64_t turned; /* nanoseconds of now_seconds() when the HTTP loop last went round; 0: not yet */
    Scrape scrape;
    struct Post *oldest_post, *newest_post; /* the loop's: tasks that are not closed, a list of post.c */
    atomic_bool draining;                   /* refuse new completions, /health says so */
    atomic_bool cut;                        /* end running ones with an error */
} Server;

/* What /health says - "ok", or why not - and the figures it goes by. Any thread. */
const char *server_status(Server *s, EngineStats *stats);
bool server_is_stuck(const EngineStats *stats); /* the engine got ready, and has shown no life for seconds */

#endif
