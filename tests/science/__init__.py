"""The worked problems of examples/science: their answers, pictures and gradients."""
