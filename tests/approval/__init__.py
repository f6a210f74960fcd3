"""What every reading command says of recorded runs, held by approval files."""
