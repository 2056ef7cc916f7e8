"""Where uncertainty comes from: measured values with their covariances, and what they are made of."""
