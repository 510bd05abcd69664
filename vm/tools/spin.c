/* spin FILE: writes its pid to FILE and computes forever, without using memory or the kernel,
 * as a polling workload does. It locks all its memory before it writes the pid. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	volatile unsigned long rounds = 0;
	FILE *file;

	if (argc != 2) {
		fprintf(stderr, "usage: spin FILE\n");
		return 2;
	}
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		perror("spin: mlockall");
	file = fopen(argv[1], "w");
	if (!file) {
		perror(argv[1]);
		return 1;
	}
	fprintf(file, "%d\n", getpid());
	fclose(file);
	for (;;)
		rounds++;
}
