#include "tests/bench/load_uploads.h"

#include "base/err.h"
#include "base/memory.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { BODY = 256 * 1024 - 64, SLOW = 128 * 1024 };

struct Uploads {
    char *body, *tokenize, *completions;
    atomic_bool stopping;
    atomic_int answered, started;
    int n;
    pthread_t threads[];
};

/* {"prompt":"..."} of words that differ. */
static char *make_body(void) {
    char *body = xmalloc(BODY + 1), word[32];
    size_t n = (size_t)sprintf(body, "{\"prompt\":\"");
    for (unsigned i = 0; n < BODY - sizeof word; i++)
        n += (size_t)sprintf(body + n, "%c%u the stone, ", 'a' + i % 26, i * 2654435761u % 1000);
    strcpy(body + n, "\"}");
    return body;
}

static char *join(const char *server, const char *path) {
    size_t n = strlen(server);
    while (n > 0 && server[n - 1] == '/') n--;
    char *url = xmalloc(n + strlen(path) + 1);
    memcpy(url, server, n);
    strcpy(url + n, path);
    return url;
}

static size_t ignore(char *data, size_t size, size_t count, void *arg) {
    (void)data, (void)arg;
    return size * count;
}

static int look(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const Uploads *u = arg;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(&u->stopping);
}

static void *send_bodies(void *arg) {
    Uploads *u = arg;
    CURL *curl = curl_easy_init();
    BUG_ON(!curl);
    bool slow = atomic_fetch_add(&u->started, 1) % 4 == 3;
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, u->body);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, look);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, u);
    curl_easy_setopt(curl, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)(slow ? SLOW : 0));
    for (int turn = 0; !atomic_load(&u->stopping); turn++) {
        curl_easy_setopt(curl, CURLOPT_URL, turn % 2 ? u->tokenize : u->completions);
        if (curl_easy_perform(curl) == CURLE_OK) atomic_fetch_add(&u->answered, 1);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return NULL;
}

Uploads *uploads_start(const char *server, int clients) {
    Uploads *u = xcalloc(1, sizeof *u + (size_t)clients * sizeof *u->threads);
    u->body = make_body();
    u->tokenize = join(server, "/tokenize");
    u->completions = join(server, "/v1/completions");
    u->n = clients;
    for (int i = 0; i < clients; i++) BUG_ON(pthread_create(&u->threads[i], NULL, send_bodies, u));
    return u;
}

int uploads_stop(Uploads *u) {
    atomic_store(&u->stopping, true);
    for (int i = 0; i < u->n; i++) pthread_join(u->threads[i], NULL);
    int answered = atomic_load(&u->answered);
    free(u->body);
    free(u->tokenize);
    free(u->completions);
    free(u);
    return answered;
}
