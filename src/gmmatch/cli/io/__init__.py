"""What commands share, also those of other distributions: options, inputs, outputs, messages."""
