"""The checker as a static page: what lies in its folder, and what answers inside the browser."""
