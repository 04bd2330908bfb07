/* server: what every request may use. */
#ifndef NOISED_SERVER_H
#define NOISED_SERVER_H

#include "server/auth.h"
#include "server/browser.h"
#include "server/versions.h"
#include "server/workers.h"

typedef struct Server {
    Versions versions;
    Metrics metrics;
    Workers *workers;
    const Auth *auth;
    ApiModels models;
    BrowserRules browser;
    double started; /* seconds since 1970 */
    bool access_log;
    atomic_bool draining; /* refuse new completions, /health says so */
    atomic_bool cut;      /* end running ones with an error */
} Server;

#endif
