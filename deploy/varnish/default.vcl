# Varnish 7 as a cache in front of the service, or of its load balancer. Change the backend, and start Varnish with
# "-p http_gzip_support=off": the service compresses, with an ETag for each encoding, which Varnish would change.
#
# The service tells Varnish what has changed. Install the package varnish-modules, and set in the service:
#   CDN_PURGE=varnish
#   CDN_PURGE_URL=http://varnish:6081
#   PUBLIC_CACHE_CONTROL="public, max-age=0, s-maxage=86400"
# Varnish then answers most reads, and the read limit doesn't count those. TRUST_PROXY must contain Varnish's address.

vcl 4.1;
import std;
import xkey;

backend default {
  .host = "127.0.0.1";
  .port = "3000";
  # Not /health/ready: while PostgreSQL is away the service still answers from its memory.
  .probe = { .url = "/health/live"; .interval = 1s; .timeout = 1s; .window = 3; .threshold = 2; .initial = 2; }
}

# Who may purge: the replicas.
acl purgers {
  "127.0.0.1";
  "::1";
}

sub vcl_recv {
  if (req.method == "PURGE") {
    if (client.ip !~ purgers || !req.http.xkey-purge) {
      return (synth(403));
    }
    set req.http.X-Purged = xkey.purge(req.http.xkey-purge);
    return (synth(200));
  }

  # Replaces what the client sent.
  set req.http.X-Forwarded-For = client.ip;
  if (req.http.X-Request-Id !~ "^[\w.:/+=@-]{1,128}$") {
    set req.http.X-Request-Id = "varnish-" + req.xid;
  }

  # Only public reads are cached. Nothing with a token ever is, and no management route.
  if ((req.method != "GET" && req.method != "HEAD") || req.http.Authorization
      || req.url !~ "^/(landing_pages|uploads)/") {
    return (pass);
  }
  # A query changes nothing in these responses, and would make a new cache entry.
  set req.url = regsub(req.url, "\?.*", "");

  # One cache entry for each encoding of the service, and not for each spelling of the header.
  if (req.http.Accept-Encoding !~ ";") {
    if (req.http.Accept-Encoding ~ "\bbr\b") {
      set req.http.Accept-Encoding = "br";
    } elsif (req.http.Accept-Encoding ~ "\bgzip\b") {
      set req.http.Accept-Encoding = "gzip";
    } else {
      unset req.http.Accept-Encoding;
    }
  }

  # Stale responses only while the service is away, which the probe finds out within 2 s.
  if (std.healthy(req.backend_hint)) {
    set req.grace = 0s;
  }
  return (hash);
}

sub vcl_backend_response {
  if (bereq.uncacheable) {
    return (deliver);
  }
  # These belong to the one reader who filled the cache.
  unset beresp.http.X-Request-Id;
  unset beresp.http.RateLimit;
  unset beresp.http.RateLimit-Policy;

  # Large files would push all documents out.
  if (std.integer(beresp.http.Content-Length, 0) > 10485760) {
    set beresp.uncacheable = true;
    return (deliver);
  }
  # Varnish's own rules follow. They don't keep what has no-store or max-age=0, such as a 404 or a 429.
  set beresp.grace = 5m; # CACHE_MAX_STALE_SECONDS
  set beresp.keep = 1h; # is revalidated by ETag
}

sub vcl_deliver {
  unset resp.http.xkey;
  if (!resp.http.X-Request-Id) {
    set resp.http.X-Request-Id = req.http.X-Request-Id;
  }
}

# Errors of Varnish itself, in the form of the service's errors.
sub vcl_synth {
  set resp.http.Content-Type = "application/json; charset=utf-8";
  set resp.http.X-Request-Id = req.http.X-Request-Id;
  set resp.body = {"{"errors":["Request was refused"]}"};
  return (deliver);
}
sub vcl_backend_error {
  set beresp.http.Content-Type = "application/json; charset=utf-8";
  set beresp.http.Cache-Control = "no-store";
  set beresp.body = {"{"errors":["The service can not be reached, try again shortly"]}"};
  return (deliver);
}
