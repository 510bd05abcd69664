/* cost TIMES COMMAND…: runs COMMAND TIMES times, discards its output, and prints the fastest and the median
 * time from fork to exit in ms, the largest resident memory in KiB, and the last exit status. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int times = argc > 2 ? atoi(argv[1]) : 0, status = 0;
	double *took;
	long memory = 0;

	if (times < 1 || !(took = calloc(times, sizeof *took))) {
		fprintf(stderr, "usage: cost TIMES COMMAND...\n");
		return 2;
	}
	for (int i = 0; i < times; i++) {
		struct rusage used;
		double begin = now();
		pid_t child = fork();
		if (child < 0) {
			perror("cost: fork");
			return 1;
		}
		if (!child) {
			int null = open("/dev/null", O_WRONLY);
			dup2(null, 1);
			dup2(null, 2);
			execvp(argv[2], argv + 2);
			_exit(127);
		}
		if (wait4(child, &status, 0, &used) < 0) {
			perror("cost: wait4");
			return 1;
		}
		took[i] = now() - begin;
		if (used.ru_maxrss > memory)
			memory = used.ru_maxrss;
	}
	qsort(took, times, sizeof *took, ascending);
	printf("fastest_ms=%.2f median_ms=%.2f memory_kib=%ld status=%d\n", took[0], took[times / 2],
	       memory, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}
