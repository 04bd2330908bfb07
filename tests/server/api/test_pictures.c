/* Pictures that cost more to read than they show. */
#include "base/err.h"
#include "base/files.h"
#include "base/memory.h"
#include "server/api/pooling/image.h"
#include "tests/support/http_client.h"
#include "tests/support/pictures.h"

#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <png.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

enum { WIDTH = 6, HEIGHT = 4, PIXELS = WIDTH * HEIGHT };

static const Config grey_config = {.input = {.kind = INPUT_PATCHES, .channels = 1, .width = WIDTH, .height = HEIGHT}};

static void draw_pixels(unsigned char *pixels) {
    for (int i = 0; i < PIXELS; i++) pixels[i] = (unsigned char)(37 * i);
}

/* libpng of this process inflates by it. */
static atomic_size_t inflated;
int inflate(z_streamp stream, int flush) {
    int (*real)(z_streamp, int) = (int (*)(z_streamp, int))dlsym(RTLD_NEXT, "inflate");
    uLong before = stream->total_out;
    int rc = real(stream, flush);
    atomic_fetch_add(&inflated, stream->total_out - before);
    return rc;
}

/* ---- texts ---- */

/* `head`, and behind it so many zeros, deflated; malloc'ed. */
static unsigned char *bomb(const char *head, size_t n_head, size_t room, size_t *n) {
    uLongf size = compressBound(room);
    unsigned char *zeros = xcalloc(1, room), *out = xmalloc(n_head + size);
    memcpy(out, head, n_head);
    CHECK(compress(out + n_head, &size, zeros, room) == Z_OK);
    *n = n_head + size;
    free(zeros);
    return out;
}

/* Whether the picture is read as `pixels`, with nothing inflated but these and no memory taken for the rest. */
static void check_read(const char *what, const char *url, const unsigned char *pixels) {
    enum { ROWS = HEIGHT * (WIDTH + 1), MOST_KB = 4096, SAME = 1, SPARING = 2 };
    int status = -1;
    pid_t pid = fork(); /* whose mark of memory begins anew */
    if (pid == 0) {
        struct rusage before, after;
        float *image;
        ApiError e;
        getrusage(RUSAGE_SELF, &before);
        atomic_store(&inflated, 0);
        bool same = api_image_read(url, &grey_config, "image", &image, &e) == 0;
        getrusage(RUSAGE_SELF, &after);
        for (int i = 0; i < PIXELS && same; i++) same = image[i] == (float)pixels[i] / 127.5f - 1;
        bool sparing = atomic_load(&inflated) == ROWS && after.ru_maxrss - before.ru_maxrss < MOST_KB;
        _exit(same * SAME + sparing * SPARING);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_MSG(WEXITSTATUS(status) & SAME, "%s: not the same picture", what);
    CHECK_MSG(WEXITSTATUS(status) & SPARING, "%s: inflated or kept", what);
}

TEST(pictures_texts_are_not_inflated) {
    static const char text[] = "Comment\0", international[] = "Comment\0\1\0\0", profile[] = "icc\0";
    enum { TIMES = 20, ROOM = 7 << 20 }; /* libpng takes at most 8 MB of one text */
    const struct {
        const char *type, *head;
        size_t n_head;
    } bombs[] = {
        {"zTXt", text, sizeof text}, {"iTXt", international, sizeof international}, {"iCCP", profile, sizeof profile}};
    unsigned char pixels[PIXELS];
    draw_pixels(pixels);
    for (size_t i = 0; i < COUNTOF(bombs); i++) {
        PictureChunk chunk = {.type = bombs[i].type};
        unsigned char *data = bomb(bombs[i].head, bombs[i].n_head, ROOM, &chunk.n);
        chunk.data = data;
        char *url = test_picture_with(pixels, WIDTH, HEIGHT, PNG_FORMAT_GRAY, chunk, TIMES);
        check_read(bombs[i].type, url, pixels);
        free(url);
        free(data);
    }
}

/* What pixels mean stays, and a chunk whose length is a lie ends the picture, not the process. */
TEST(pictures_keep_what_pixels_mean) {
    static const unsigned char second[] = {0, 37}; /* the grey that is transparent, so black */
    const PictureChunk none = {.type = "tEXt", .data = second}, hole = {"tRNS", second, sizeof second};
    unsigned char pixels[PIXELS];
    float *image;
    ApiError e;
    draw_pixels(pixels);
    char *url = test_picture_with(pixels, WIDTH, HEIGHT, PNG_FORMAT_GRAY, none, 1);
    check_read("an empty text", url, pixels);
    free(url);
    url = test_picture_with(pixels, WIDTH, HEIGHT, PNG_FORMAT_GRAY, hole, 1);
    pixels[1] = 0;
    check_read("a hole", url, pixels);
    free(url);
    static unsigned char file[] = "\x89PNG\r\n\x1a\n\xff\xff\xff\xfftEXt: its length goes beyond its end";
    char *lie = xcalloc(1, 256);
    strcpy(lie, "data:image/png;base64,");
    EVP_EncodeBlock((unsigned char *)lie + strlen(lie), file, sizeof file - 1);
    CHECK(api_image_read(lie, &grey_config, "image", &image, &e) < 0 && e.status == 400 && !image);
    free(lie);
}

/* ---- whose work it is ---- */

typedef struct Spent {
    int thread;
    int64_t ns;
} Spent;

enum { MOST_THREADS = 32 };

/* What each thread of the daemon has computed so far. */
static int look(const Daemon *d, Spent *spent) {
    int n = 0;
    DIR *tasks = opendir(test_text("/proc/%d/task", (int)d->pid));
    for (struct dirent *t; tasks && n < MOST_THREADS && (t = readdir(tasks));) {
        spent[n].thread = atoi(t->d_name);
        FILE *f = fopen(test_text("/proc/%d/task/%d/schedstat", (int)d->pid, spent[n].thread), "r");
        if (f && fscanf(f, "%" SCNd64, &spent[n].ns) == 1) n++;
        if (f) fclose(f);
    }
    if (tasks) closedir(tasks);
    return n;
}

/* The thread that computed most for TIMES requests. */
static int busiest(const Daemon *d, const char *path, const char *body) {
    enum { TIMES = 50 };
    Spent before[MOST_THREADS], after[MOST_THREADS];
    int n = look(d, before), m, best = -1;
    int64_t most = 0;
    for (int i = 0; i < TIMES; i++) {
        Answer a = body ? http_post(d, path, body) : http_get(d, path);
        CHECK_MSG(a.status == 200, "%s: %d %s", path, a.status, a.body);
    }
    m = look(d, after);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++) {
            if (before[i].thread != after[k].thread || after[k].ns - before[i].ns <= most) continue;
            most = after[k].ns - before[i].ns;
            best = after[k].thread;
        }
    return best;
}

/* A body of 3 KB whose one row of pixels is two megabytes too long. */
TEST(pictures_are_never_decoded_by_the_http_thread) {
    enum { ROOM = 2 << 20 };
    unsigned char pixels[PIXELS];
    PictureChunk rows = {.type = "IDAT"};
    unsigned char *data = bomb("", 0, ROOM, &rows.n);
    char body[4096];
    Daemon d;
    draw_pixels(pixels);
    rows.data = data;
    char *url = test_picture_with(pixels, WIDTH, HEIGHT, PNG_FORMAT_GRAY, rows, 1);
    REQUIRE((size_t)snprintf(body, sizeof body, "{\"input\":{\"image\":\"%s\"}}", url) < sizeof body);
    REQUIRE(daemon_start(&d, CHECKPOINT_IMAGES, NULL));
    int http = busiest(&d, "/metrics", NULL), decoder = busiest(&d, "/v1/classify", body);
    CHECK_MSG(http > 0 && decoder > 0 && http != decoder, "thread %d did it all", decoder);
    daemon_stop(&d);
    free(url);
    free(data);
}
