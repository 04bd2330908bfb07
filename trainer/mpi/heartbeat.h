/* heartbeat: whether the other ranks are alive, so that no meeting (ranks.h) waits for one that never comes.
 *
 * The ranks stand in a ring: each sends a beat to the next, some times in every limit, and hears those of the one
 * before. A thread of its own does both, so a rank that computes, evaluates or writes for hours beats all the while.
 * One that is silent for the limit has been stopped, or its host is gone. Whoever misses it says which rank that is,
 * and on which host, and ends the job everywhere with EXIT_RANK_LOST.
 *
 * One that beats and yet does nothing waits for what will not come, a file system perhaps: who waits in a meeting looks
 * for the others all the time. After STILL_LIMITS limits without work for its processors it says so of itself, and ends
 * the job likewise.
 *
 * The limit is 60 s, or the seconds in the environment's NOISED_RANK_TIMEOUT, of which rank 0's count. Times in which
 * this process was itself stopped, or its machine slept, do not. */
#ifndef NOISED_HEARTBEAT_H
#define NOISED_HEARTBEAT_H

#include "trainer/ranks/ranks.h"

enum { EXIT_RANK_LOST = 75, STILL_LIMITS = 10 };

/* Behind MPI's start, which was told that several threads call it. r: borrowed until the stop. */
int heartbeat_start(const Ranks *r, Err *err);
/* A failure of this rank, in one line of one rank. Rank 0 prints its own and returns. Any other rank hands its line to
 * rank 0, whose thread prints the first that comes, unless rank 0 fails as well, and ends the job; an empty message
 * leaves that to rank 0. Only when rank 0 does not for as long as the limit, it prints the line itself and returns. */
void heartbeat_tell(const char *who, const char *message, int status);
/* Waits for all ranks: none misses one that has done its part. Harmless before the start. */
void heartbeat_stop(void);

#endif
