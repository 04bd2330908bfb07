#include "server/auth.h"

#include "base/files.h"
#include "base/err.h"
#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Visible ASCII characters, fewer than `room`. */
static int check_word(const char *what, const char *word, size_t n, size_t room, const char *path, int line, Err *err) {
    if (n >= room)
        return err_set(err, "%s:%d: the %s has %zu bytes, at most %zu are allowed", path, line, what, n, room - 1);
    for (size_t i = 0; i < n; i++)
        if (word[i] <= ' ' || word[i] == 0x7f)
            return err_set(err, "%s:%d: a %s is made of visible ASCII characters without a space", path, line, what);
    return 0;
}

/* "KEY" or "KEY NAME". */
static int add_key(Auth *a, const char *key, size_t length, const char *path, int line, Err *err) {
    const char *space = memchr(key, ' ', length), *name = space ? space + 1 : key + length;
    size_t n = (size_t)((space ? space : name) - key), n_name = (size_t)(key + length - name);
    if (n == 0 || (space && (n_name == 0 || memchr(name, ' ', n_name))))
        return err_set(err, "%s:%d: a line is a key, or a key, one space and its name, without further spaces", path,
                       line);
    if (check_word("key", key, n, AUTH_KEY_BYTES, path, line, err) ||
        check_word("key's name", name, n_name, AUTH_NAME_BYTES, path, line, err))
        return -1;
    AuthKey *keys = try_realloc(a->keys, (size_t)(a->n + 1) * sizeof *a->keys);
    if (!keys) return err_set(err, "%s: no memory for the keys", path);
    a->keys = keys;
    keys[a->n] = (AuthKey){.number = ++a->last, .line = line};
    memcpy(keys[a->n].name, name, n_name);
    memcpy(keys[a->n++].text, key, n);
    return 0;
}

static int by_text(const void *a, const void *b) {
    const AuthKey *x = *(const AuthKey *const *)a, *y = *(const AuthKey *const *)b;
    int order = strcmp(x->text, y->text);
    return order ? order : x->line - y->line;
}

/* Or two tenants were one: find puts the numbers of what is equal together. */
static int check_distinct(const Auth *a, const char *path, Err *err) {
    const AuthKey **sorted = try_malloc((size_t)a->n * sizeof *sorted);
    int rc = sorted ? 0 : err_set(err, "%s: no memory for the keys", path);
    for (int i = 0; sorted && i < a->n; i++) sorted[i] = &a->keys[i];
    if (sorted) qsort(sorted, (size_t)a->n, sizeof *sorted, by_text);
    for (int i = 1; i < a->n && !rc; i++)
        if (!strcmp(sorted[i - 1]->text, sorted[i]->text))
            rc = err_set(err, "%s:%d: this key is on a line before, too", path, sorted[i]->line);
    free(sorted);
    return rc;
}

/* Who may read a key may use it. A group of root's choice may: that is how credentials are handed to a service. */
static int check_access(const char *path, Err *err) {
    struct stat st;
    if (stat(path, &st)) return err_set(err, "%s: %s", path, strerror(errno));
    unsigned mode = (unsigned)st.st_mode & 0777, allowed = st.st_uid == 0 ? 0740 : 0700;
    if ((mode & ~allowed) == 0) return 0;
    return err_set(err, "%s: its mode %04o lets others at the keys, it must be %s (chmod %s)", path, mode,
                   st.st_uid == 0 ? "0640 or less" : "0600 or less", st.st_uid == 0 ? "640" : "600");
}

int auth_load(Auth *a, const char *path, Err *err) {
    enum { FILE_BYTES = 1 << 20 };
    size_t n;
    int line = 0, rc = 0;
    *a = (Auth){.mutex = PTHREAD_MUTEX_INITIALIZER};
    if (check_access(path, err)) return -1;
    char *text = file_read(path, FILE_BYTES, &n, err);
    if (!text) return -1;
    if (memchr(text, 0, n)) rc = err_set(err, "%s: there is a NUL byte in the file", path);
    for (char *p = text, *next; p && !rc; p = next) {
        next = strchr(p, '\n');
        size_t length = next ? (size_t)(next++ - p) : strlen(p);
        if (length > 0 && p[length - 1] == '\r') length--;
        line++;
        if (length > 0 && *p != '#') rc = add_key(a, p, length, path, line, err);
    }
    explicit_bzero(text, n);
    free(text);
    if (rc == 0 && a->n == 0) rc = err_set(err, "%s: no key in the file", path);
    if (rc == 0) rc = check_distinct(a, path, err);
    if (rc) auth_free(a);
    return rc;
}

void auth_free(Auth *a) {
    if (a->keys) explicit_bzero(a->keys, (size_t)a->n * sizeof *a->keys);
    free(a->keys);
    *a = (Auth){0};
}

/* 1 or 0. */
static unsigned equal(const char *a, const char *b) {
    unsigned char difference = 0;
    for (int i = 0; i < AUTH_KEY_BYTES; i++) difference |= (unsigned char)(a[i] ^ b[i]);
    return ((unsigned)difference - 1) >> 31;
}

/* The number of the key, -1 when there is none. No branch depends on a key: make bench-keys measures it. */
static int find(const Auth *a, const char key[AUTH_KEY_BYTES]) {
    unsigned found = 0;
    for (int i = 0; i < a->n; i++) found |= (unsigned)a->keys[i].number & -equal(key, a->keys[i].text);
    return (int)found - (found == 0);
}

int auth_reload(Auth *a, const char *path, Err *err) {
    Auth made;
    if (auth_load(&made, path, err)) return -1;
    for (int i = 0; i < made.n; i++) {
        int known = find(a, made.keys[i].text);
        made.keys[i].number = known > 0 ? known : ++a->last;
    }
    pthread_mutex_lock(&a->mutex);
    Auth before = {.keys = a->keys, .n = a->n};
    a->keys = made.keys;
    a->n = made.n;
    pthread_mutex_unlock(&a->mutex);
    auth_free(&before);
    return 0;
}

int auth_check(Auth *a, const char *authorization, const char *api_key) {
    static const char scheme[] = "Bearer ";
    char given[AUTH_KEY_BYTES] = {0};
    const char *key = api_key;
    if (authorization && !strncasecmp(authorization, scheme, sizeof scheme - 1))
        key = authorization + sizeof scheme - 1;
    if (key && strlen(key) < sizeof given) memcpy(given, key, strlen(key));
    pthread_mutex_lock(&a->mutex);
    int found = a->n == 0 ? 0 : find(a, given);
    pthread_mutex_unlock(&a->mutex);
    return found;
}

void auth_name(Auth *a, int number, char name[AUTH_NAME_BYTES]) {
    snprintf(name, AUTH_NAME_BYTES, "%d", number);
    pthread_mutex_lock(&a->mutex);
    for (int i = 0; i < a->n; i++)
        if (a->keys[i].number == number && *a->keys[i].name) memcpy(name, a->keys[i].name, AUTH_NAME_BYTES);
    pthread_mutex_unlock(&a->mutex);
}
