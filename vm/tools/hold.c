/* hold CPU AFTER_MS HOLD_MS: occupies CPU once as SCHED_FIFO 99 and prints when: a line `BEGIN END` in
 * nanoseconds of CLOCK_MONOTONIC, or nothing without the permission. This is a known delay. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv)
{
	struct sched_param param = { .sched_priority = 99 };
	struct timespec after;
	uint64_t begin, end, hold;
	cpu_set_t cpus;
	long ms;

	if (argc != 4) {
		fprintf(stderr, "usage: hold CPU AFTER_MS HOLD_MS\n");
		return 2;
	}
	ms = atol(argv[2]);
	after = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	hold = atol(argv[3]) * 1000000ull;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	/* The policy comes first: until then an ordinary thread would share the CPU. */
	if (mlockall(MCL_CURRENT | MCL_FUTURE) || sched_setscheduler(0, SCHED_FIFO, &param) ||
	    sched_setaffinity(0, sizeof(cpus), &cpus)) {
		perror("hold");
		return 1;
	}
	nanosleep(&after, NULL);
	begin = now();
	do
		end = now();
	while (end - begin < hold);
	printf("%llu %llu\n", (unsigned long long)begin, (unsigned long long)end);
	return 0;
}
