"""Several processes on MPI. The programs they run are in the folder `ranks`."""
