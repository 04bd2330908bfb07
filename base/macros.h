/* macros: what C itself lacks. */
#ifndef NOISED_MACROS_H
#define NOISED_MACROS_H

#define COUNTOF(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
