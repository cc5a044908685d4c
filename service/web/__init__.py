"""HTTP: routes, answers, problems and the page."""
