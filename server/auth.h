/* auth: API keys from a file, one a line, behind which may stand a name for whoever reads logs (blank lines and lines
 * that begin with # are skipped). A file that others than its owner can read is refused, but for a group of root's
 * choice. The time of a check depends on the number of keys alone, not on how much of a key was guessed. Any thread may
 * check while another one loads again. */
#ifndef NOISED_AUTH_H
#define NOISED_AUTH_H

#include "base/err.h"

#include <pthread.h>

enum { AUTH_KEY_BYTES = 256, AUTH_NAME_BYTES = 64 };

typedef struct AuthKey {
    char text[AUTH_KEY_BYTES];  /* padded with zeros */
    char name[AUTH_NAME_BYTES]; /* "": none was given */
    int number;                 /* from 1; never another key's */
    int line;                   /* of the file */
} AuthKey;

typedef struct Auth {
    pthread_mutex_t mutex; /* guards what follows */
    AuthKey *keys;         /* [n] */
    int n;                 /* 0: everybody may come in */
    int last;              /* number that was given */
} Auth;

int auth_load(Auth *a, const char *path, Err *err);
/* Again: a key that was there keeps its number. On failure everything stays as it was. One thread at a time. */
int auth_reload(Auth *a, const char *path, Err *err);
void auth_free(Auth *a);

/* The headers' values or NULL: "Authorization: Bearer KEY", or "X-Api-Key: KEY". Returns the number of the key, from 1;
 * 0 when there are no keys; -1 when no key fits. */
int auth_check(Auth *a, const char *authorization, const char *api_key);

/* What the key of this number is called: its name, else the number. */
void auth_name(Auth *a, int number, char name[AUTH_NAME_BYTES]);

#endif
