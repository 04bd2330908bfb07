/* Several daemons behind haproxy that die, restart and change their weights under 64 clients, who count the tokens they
 * have got and ask for the rest: every answer is that of an undisturbed run.
 *     TAKEOVER_SECONDS=60 TRIALS=5 build/run-tests takeover       TAKEOVER_TRACE=file: what came when, as JSON lines */
#include "base/clock.h"
#include "base/memory.h"
#include "tests/support/fleet.h"
#include "tests/support/stream_client.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = SANITIZED ? 16 : 64, TOKENS = 200, VERSIONS = 2, MOST_REFUSALS = 10 };

static int environment(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* A client asks one stream after the other, until one is whole at least, one of its own with given seeds, another every
 * eighth client with drawn ones. */
typedef struct Client {
    pthread_t thread;
    const Daemon *front;
    const atomic_bool *stop;
    bool patient; /* goes on with a stream that broke off; else that is a failure */
    int number;
    Stream *streams; /* [n], all that began */
    int n, compared, wrong, refused, failed;
    int conflicts, unanswered; /* answers 409; 502 and 503 */
} Client;

typedef struct Crowd {
    Client clients[CLIENTS];
    atomic_bool stop;
} Crowd;

/* What was seen, all clients together. */
typedef struct Tally {
    int whole, compared, takeovers, most_takeovers, wrong, refused, failed, mixed, conflicts, unanswered;
    long tokens, lost, doubled;
} Tally;

typedef struct Kill {
    double at;
    int replica;
} Kill;

/* Without NUL, where cJSON ends a string. */
static void request_of(const Client *c, char request[128]) {
    snprintf(request, 128,
             "\"prompt\":\"The river %d\",\"max_tokens\":%d,\"ignore_eos\":true,\"logit_bias\":{\"189\":-100}",
             c->number, TOKENS);
}

/* Until it is whole, or refused for good since nobody serves its weights any more. */
static void finish(Client *c, Stream *s, const char *request) {
    for (int refusals = 0; !stream_go_on(s, c->front, request, 0);) {
        if (!c->patient) {
            CHECK_MSG(false, "client %d: status %d, %d tokens", c->number, s->status, s->tokens);
            c->failed++;
            return;
        }
        refusals += s->status == 409;
        c->conflicts += s->status == 409;
        c->unanswered += s->status == 502 || s->status == 503;
        if (refusals == MOST_REFUSALS) {
            c->refused++;
            return;
        }
        if (s->status != 200) usleep(50000);
    }
}

static void *client_main(void *arg) {
    Client *c = arg;
    char request[128];
    request_of(c, request);
    for (bool whole = false; !atomic_load(c->stop) || !(whole || c->failed);) {
        c->streams = xrealloc(c->streams, (size_t)(c->n + 1) * sizeof *c->streams);
        Stream *s = &c->streams[c->n++];
        stream_open(s, c->number % 8 == 7 ? -1 : c->number);
        finish(c, s, request);
        whole = whole || s->done;
    }
    return NULL;
}

static void crowd_start(Crowd *crowd, const Fleet *f, bool patient) {
    *crowd = (Crowd){0};
    for (int i = 0; i < CLIENTS; i++) {
        Client *c = &crowd->clients[i];
        *c = (Client){.front = &f->balancer.front, .stop = &crowd->stop, .patient = patient, .number = i};
        BUG_ON(pthread_create(&c->thread, NULL, client_main, c));
    }
}

static void crowd_join(Crowd *crowd) {
    atomic_store(&crowd->stop, true);
    for (int i = 0; i < CLIENTS; i++) BUG_ON(pthread_join(crowd->clients[i].thread, NULL));
}

static void crowd_free(Crowd *crowd) {
    for (int i = 0; i < CLIENTS; i++) {
        for (int k = 0; k < crowd->clients[i].n; k++) stream_close(&crowd->clients[i].streams[k]);
        free(crowd->clients[i].streams);
    }
}

/* ---- beside an undisturbed run ---- */

/* Asks the daemon that c->front is now for each answer that its weights gave. */
static void *compare_main(void *arg) {
    Client *c = arg;
    Stream alone = {.seed = NAN};
    char request[128], *expected = NULL;
    request_of(c, request);
    for (int k = 0; k < c->n; k++) {
        const Stream *s = &c->streams[k];
        if (!s->done) continue;
        if (s->seed != alone.seed) {
            free(expected);
            stream_close(&alone);
            stream_open(&alone, 0);
            alone.seed = s->seed;
            alone.noise_seed = s->noise_seed;
            bool whole = stream_go_on(&alone, c->front, request, 0) && alone.tokens == TOKENS;
            CHECK_MSG(whole, "undisturbed: status %d, %d tokens", alone.status, alone.tokens);
            expected = stream_essence(&alone);
        }
        if (strcmp(alone.fingerprint, s->fingerprint)) continue;
        char *essence = stream_essence(s);
        bool right = !strcmp(essence, expected);
        CHECK_MSG(right || c->wrong, "client %d, %d attempts:\n%s\nnot\n%s", c->number, s->attempts, essence, expected);
        c->wrong += !right;
        c->compared++;
        free(essence);
    }
    free(expected);
    stream_close(&alone);
    return NULL;
}

static void crowd_compare(Crowd *crowd, const Daemon *d) {
    for (int i = 0; i < CLIENTS; i++) {
        crowd->clients[i].front = d;
        BUG_ON(pthread_create(&crowd->clients[i].thread, NULL, compare_main, &crowd->clients[i]));
    }
    for (int i = 0; i < CLIENTS; i++) BUG_ON(pthread_join(crowd->clients[i].thread, NULL));
}

static void add(Tally *t, const Crowd *crowd) {
    for (int i = 0; i < CLIENTS; i++) {
        const Client *c = &crowd->clients[i];
        t->compared += c->compared;
        t->wrong += c->wrong;
        t->refused += c->refused;
        t->failed += c->failed;
        t->conflicts += c->conflicts;
        t->unanswered += c->unanswered;
        for (int k = 0; k < c->n; k++) {
            const Stream *s = &c->streams[k];
            t->whole += s->done;
            t->mixed += s->mixed;
            t->tokens += s->tokens;
            t->takeovers += s->takeovers;
            t->most_takeovers = MAX(t->most_takeovers, s->takeovers);
            t->lost += s->done && s->tokens < TOKENS ? TOKENS - s->tokens : 0;
            t->doubled += s->tokens > TOKENS ? s->tokens - TOKENS : 0;
        }
    }
}

static void check(const char *what, const Tally *t) {
    printf("  %s: %d answers, %ld tokens, %d takeovers (%d of one answer at most), %d times 409, %d given up after it, "
           "%d times 502 or 503; %d wrong, %d failed, %d mixed, %ld tokens lost, %ld doubled\n",
           what, t->whole, t->tokens, t->takeovers, t->most_takeovers, t->conflicts, t->refused, t->unanswered,
           t->wrong, t->failed, t->mixed, t->lost, t->doubled);
    CHECK(t->whole >= CLIENTS && t->compared == t->whole);
    CHECK(!t->wrong && !t->failed && !t->mixed && !t->lost && !t->doubled);
}

/* ---- the tests ---- */

/* One line for each event of the answer that was taken over most often, one for each kill. */
static void write_trace(const Crowd *crowd, const Kill *kills, int n_kills) {
    const char *path = getenv("TAKEOVER_TRACE");
    FILE *f = path ? fopen(path, "w") : NULL;
    const Stream *most = &crowd->clients[0].streams[0];
    for (int i = 0; f && i < CLIENTS; i++)
        for (int k = 0; k < crowd->clients[i].n; k++)
            if (crowd->clients[i].streams[k].takeovers > most->takeovers) most = &crowd->clients[i].streams[k];
    for (int i = 0; f && i < most->n_arrivals; i++)
        fprintf(f, "{\"at\":%.6f,\"tokens\":%d,\"attempt\":%d,\"replica\":\"%c\"}\n", most->arrivals[i].at,
                most->arrivals[i].tokens, most->arrivals[i].attempt, most->arrivals[i].replica);
    for (int i = 0; f && i < n_kills; i++)
        fprintf(f, "{\"at\":%.6f,\"killed\":\"%c\"}\n", kills[i].at, 'a' + kills[i].replica);
    if (f) fclose(f);
}

enum { SECONDS = SANITIZED ? 2 : 4 };

/* kill -9 of one daemon a second. */
TEST(takeover_of_killed_daemons) {
    if (!balancer_there(BALANCER_HAPROXY)) SKIP("needs haproxy");
    int seconds = environment("TAKEOVER_SECONDS", SECONDS), trials = environment("TRIALS", 1);
    Kill *kills = xcalloc((size_t)seconds, sizeof *kills);
    Tally tally = {0};
    test_takes_long();
    for (int trial = 0; trial < trials; trial++) {
        Fleet f;
        Crowd crowd;
        bool up = true;
        REQUIRE(fleet_start(&f, BALANCER_HAPROXY, test_checkpoint(CHECKPOINT_SMALL), NULL));
        crowd_start(&crowd, &f, true);
        for (int i = 0; up && i < seconds; i++) {
            kills[i] = (Kill){.at = now_seconds() + 1, .replica = (i + trial) % REPLICAS};
            while (now_seconds() < kills[i].at) usleep(1000);
            up = fleet_kill(&f, kills[i].replica);
        }
        crowd_join(&crowd);
        crowd_compare(&crowd, &f.daemons[0]);
        add(&tally, &crowd);
        write_trace(&crowd, kills, seconds);
        crowd_free(&crowd);
        fleet_stop(&f);
        REQUIRE(up);
    }
    free(kills);
    printf("  %d kills in %d trials\n", seconds * trials, trials);
    check("killed", &tally);
    CHECK(tally.takeovers > 0);
}

/* nginx: kill -9 of one daemon after the other, each when the last one serves again, so two of three are well all the
 * time: nobody is told that none is. Where a daemon that had refused was left alone for a while, 343 requests of a
 * minute were. */
TEST(takeover_of_killed_daemons_behind_nginx) {
    if (!balancer_there(BALANCER_NGINX)) SKIP("needs nginx");
    double seconds = environment("TAKEOVER_SECONDS", SECONDS);
    Tally tally = {0};
    Fleet f;
    Crowd crowd;
    bool up = true;
    int kills = 0;
    test_takes_long();
    REQUIRE(fleet_start(&f, BALANCER_NGINX, test_checkpoint(CHECKPOINT_SMALL), NULL));
    crowd_start(&crowd, &f, true);
    for (double next = now_seconds() + 1, until = now_seconds() + seconds; up && next < until; kills++) {
        while (now_seconds() < next) usleep(1000);
        next = now_seconds() + 1;
        up = fleet_kill_and_wait(&f, kills % REPLICAS);
    }
    crowd_join(&crowd);
    crowd_compare(&crowd, &f.daemons[0]);
    add(&tally, &crowd);
    crowd_free(&crowd);
    fleet_stop(&f);
    REQUIRE(up);
    printf("  %d kills\n", kills);
    check("killed behind nginx", &tally);
    CHECK(tally.takeovers > 0);
    CHECK_MSG(tally.unanswered == 0, "%d times 502 or 503", tally.unanswered);
}

/* Each in turn, under clients that give up at the first error. */
TEST(takeover_not_needed_while_restarts_roll) {
    if (!balancer_there(BALANCER_HAPROXY)) SKIP("needs haproxy");
    int rounds = environment("TAKEOVER_SECONDS", 4) / 4;
    Tally tally = {0};
    Fleet f;
    Crowd crowd;
    bool up = true;
    test_takes_long();
    REQUIRE(fleet_start(&f, BALANCER_HAPROXY, test_checkpoint(CHECKPOINT_SMALL), NULL));
    crowd_start(&crowd, &f, false);
    for (int i = 0; up && i < rounds * REPLICAS; i++) up = fleet_restart(&f, i % REPLICAS);
    crowd_join(&crowd);
    crowd_compare(&crowd, &f.daemons[0]);
    add(&tally, &crowd);
    crowd_free(&crowd);
    fleet_stop(&f);
    printf("  %d restarts\n", rounds * REPLICAS);
    check("restarted", &tally);
    CHECK(tally.takeovers == 0);
}

/* ---- new weights ---- */

/* The folder `live` is a link to one of two checkpoints. */
typedef struct Site {
    const char *dir;
    char live[300], versions[VERSIONS][300];
} Site;

static void site_point(const Site *s, int version) {
    const char *fresh = test_text("%s/fresh", s->dir);
    CHECK(symlink(s->versions[version], fresh) == 0 && rename(fresh, s->live) == 0);
}

static bool site_open(Site *s) {
    *s = (Site){.dir = test_dir()};
    snprintf(s->live, sizeof s->live, "%s/live", s->dir);
    for (int i = 0; i < VERSIONS; i++) {
        snprintf(s->versions[i], sizeof s->versions[i], "%s/%d", s->dir, i);
        if (!test_checkpoint_write(s->versions[i], CHECKPOINT_SMALL, (uint64_t)i + 1)) return false;
    }
    site_point(s, 0);
    return true;
}

/* One daemon after the other takes the version over, and the one after it dies: whoever comes back has it too. */
static bool reload_in_turn(Fleet *f, const Site *s, int version) {
    bool up = true;
    site_point(s, version);
    for (int i = 0; up && i < REPLICAS; i++) {
        kill(f->daemons[i].pid, SIGHUP);
        usleep(300000);
        up = fleet_kill(f, (i + 1) % REPLICAS);
        usleep(300000);
    }
    return up;
}

/* An answer that was cut off while `version` answers is not gone on with by the other one, whoever is asked; when the
 * first is back it is. */
static void check_refusal(Fleet *f, const Site *s, int version) {
    Client c = {.number = 1};
    char request[128];
    Stream cut;
    request_of(&c, request);
    stream_open(&cut, 1);
    CHECK(!stream_go_on(&cut, &f->balancer.front, request, 5) && cut.tokens >= 5);
    site_point(s, 1 - version);
    for (int i = 0; i < REPLICAS; i++) fleet_restart(f, i);
    int had = cut.tokens;
    for (int i = 0; i < 2 * REPLICAS; i++) {
        CHECK(!stream_go_on(&cut, &f->balancer.front, request, 0));
        CHECK_MSG(cut.status == 409 && cut.tokens == had, "status %d, %d tokens more", cut.status, cut.tokens - had);
    }
    site_point(s, version);
    for (int i = 0; i < REPLICAS; i++) fleet_restart(f, i);
    CHECK_MSG(stream_go_on(&cut, &f->balancer.front, request, 0) && cut.tokens == TOKENS, "status %d, %d tokens",
              cut.status, cut.tokens);
    stream_close(&cut);
}

/* Both versions answer for a while, daemons die meanwhile, and no answer is of two of them. */
TEST(takeover_never_mixes_weights) {
    if (!balancer_there(BALANCER_HAPROXY)) SKIP("needs haproxy");
    int rounds = environment("TAKEOVER_SECONDS", 4) / 4;
    Tally tally = {0};
    Site site;
    Fleet f;
    Crowd crowd;
    bool up = true;
    test_takes_long();
    REQUIRE(site_open(&site) && fleet_start(&f, BALANCER_HAPROXY, site.live, NULL));
    crowd_start(&crowd, &f, true);
    for (int i = 1; up && i <= rounds; i++) up = reload_in_turn(&f, &site, i % VERSIONS);
    crowd_join(&crowd);
    for (int i = 0; i < VERSIONS; i++) {
        Daemon alone;
        if (!daemon_start_at(&alone, site.versions[i], NULL)) break;
        crowd_compare(&crowd, &alone);
        daemon_stop(&alone);
    }
    add(&tally, &crowd);
    crowd_free(&crowd);
    printf("  %d reloads of three daemons\n", rounds);
    check("reloaded", &tally);
    if (up) check_refusal(&f, &site, rounds % VERSIONS);
    fleet_stop(&f);
}
