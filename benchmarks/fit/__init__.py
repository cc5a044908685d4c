"""Programs that fit under no layout: `toast plan --fit` beside what people write by hand."""
