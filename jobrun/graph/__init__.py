"""What a job is once it has been checked: frozen values, standard library only."""
