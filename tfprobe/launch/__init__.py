"""Start a job and watch over it. What a person reads of that is said in cli/."""
