// Generated from the service's OpenAPI document by `npm run generate:client`. Don't edit.

export interface paths {
    "/api_keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the caller's API keys, newest first
         * @description Without the keys themselves. Expired keys are included.
         */
        get: operations["listApiKeys"];
        put?: never;
        /**
         * Create an API key
         * @description A key lets a program manage pages and assets without a sign-in, until it is deleted or expires. It never works for the account itself. With `assets:read` or `assets:write` it also sees the ids and public ids of pages that use a file. An account can have 100 keys that have not expired. Wrong passwords count as failed sign-ins.
         */
        post: operations["createApiKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api_keys/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read one of the caller's API keys
         * @description Without the key itself.
         */
        get: operations["getApiKey"];
        put?: never;
        post?: never;
        /**
         * Delete an API key
         * @description The key is refused immediately, on all replicas.
         */
        delete: operations["deleteApiKey"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/assets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the caller's assets
         * @description If there are more records, the `Link` header contains the URL of the next ones.
         */
        get: operations["listAssets"];
        put?: never;
        /**
         * Upload a file
         * @description One file in the form field `asset[file]`, by default of at most 25 MiB. Other fields are ignored. After a 201, the file is stored durably; after an error, nothing is stored.
         */
        post: operations["createAsset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/assets/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read one of the caller's assets
         * @description The record of the file, and the pages that use it. The file itself is at its `url`. `If-Modified-Since` is ignored, and `If-Unmodified-Since` compares with the time of the upload, because the use of a file has no date.
         */
        get: operations["getAsset"];
        put?: never;
        post?: never;
        /**
         * Delete one of the caller's assets and its file
         * @description The file is gone immediately. Shared caches may keep their copies for a year. With `if_unused=true` the file is kept, and the response is a 409, if a page uses it; a page that is written at the same time either keeps the file, or its document names a file that is gone.
         */
        delete: operations["deleteAsset"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/browser_session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Keep the session of a browser in a cookie
         * @description Exchanges a refresh token for the next one, which it sets as a cookie that scripts can't read: that of the body after a sign-in, and from then on that of the cookie. A refresh token can be used once, and a replay ends the session, as with `/auth/refresh`. A refused cookie is deleted. If another request has renewed it less than 10 seconds ago, it is not, and the 401 has a `Retry-After`: by then the browser has the next cookie. Without a refresh token and a cookie, the response is a 204. Only pages of the service itself may send this request: its `Origin` must be that of `BASE_URL` or of the host that it is sent to.
         */
        post: operations["renewBrowserSession"];
        /**
         * Sign a browser out
         * @description Ends the session of the cookie immediately, on all replicas, and deletes the cookie. Only pages of the service itself may send this request: its `Origin` must be that of `BASE_URL` or of the host that it is sent to.
         */
        delete: operations["endBrowserSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/email_confirmations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Confirm the email address with the link of a mail
         * @description Ends all sessions of the account and deletes its API keys and preview links, because somebody else may have signed up with the address. Only the session whose access token is sent stays, if it belongs to the account. The access token is optional, but must be valid.
         */
        put: operations["confirmEmail"];
        /**
         * Ask for another link that confirms the email address
         * @description Sign-up sends the first one. The link is valid for an hour and can be used once; a later link replaces it. At most three of these mails are sent in an hour, and none if the address is confirmed; the response is the same in any case.
         */
        post: operations["requestEmailConfirmation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the caller's account
         * @description The account to which the access token belongs.
         */
        get: operations["me"];
        put?: never;
        post?: never;
        /**
         * Delete the caller's account
         * @description Deletes the account with its pages, their versions and read counts, its assets and their files, its sessions and API keys. With the response, the account and its tokens can no longer be used, and pages are a 404, on all replicas. What takes longer than two seconds, such as the removal of thousands of files, goes on behind it. The email address is free for a new account. This can't be undone. Wrong passwords count as failed sign-ins.
         */
        delete: operations["deleteAccount"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Change the password
         * @description Ends all other sessions of the account and all links that reset its password, and deletes its API keys. Wrong passwords count as failed sign-ins.
         */
        put: operations["changePassword"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/password_resets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Choose a new password with the link of a mail
         * @description Confirms the email address, ends all sessions of the account and all links that were mailed before, and deletes its API keys and preview links. A link whose new password is refused can be used again.
         */
        put: operations["resetPassword"];
        /**
         * Ask for a link that resets the password
         * @description Sends a mail with the link, if there is an account with the address. The response is the same in any case, and takes the same time. The link leads to a page of the service, is valid for an hour and can be used once; a later link replaces it. An address gets at most three of these mails an hour. By default, a client address may send 30 of these requests a minute.
         */
        post: operations["requestPasswordReset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Exchange a refresh token for a new pair of tokens
         * @description A refresh token can be used once. If it is sent several times at once, one request gets new tokens and the others get a 401. If it is sent again more than 10 seconds after its first use, the session ends, because the token may have been stolen. So send one refresh at a time, and store the new tokens.
         */
        post: operations["refresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List where the caller is signed in, newest first
         * @description The sessions of the account that can still be used.
         */
        get: operations["listSessions"];
        put?: never;
        post?: never;
        /**
         * End all other sessions
         * @description Ends all sessions of the account except that of the access token.
         */
        delete: operations["endOtherSessions"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * End a session
         * @description Its tokens are refused immediately, on all replicas.
         */
        delete: operations["endSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the settings of the caller's account
         * @description The setting `PREVIEW_URL` of the service, for accounts without an own address, is not shown.
         */
        get: operations["getSettings"];
        /**
         * Replace the settings of the caller's account
         * @description Without `If-Match`, the last of two requests at once wins.
         */
        put: operations["putSettings"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/sign_in": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sign in
         * @description Starts a new session; existing sessions stay valid. By default, the service responds with a 429 after 10 failures for one account in 15 minutes, or 30 failures from one client address in a minute.
         */
        post: operations["signIn"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/sign_out": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Sign out
         * @description Ends the sessions of the access token and of the refresh token immediately, on all replicas. If the refresh token is missing, invalid, already used or another account's, the response is a 401 and no session ends.
         */
        delete: operations["signOut"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/sign_up": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create an account
         * @description Also signs in: the response contains the tokens of the first session. By default, a client address may send 60 of these requests a minute. With `SIGN_UP=closed`, the response is a 403.
         */
        post: operations["signUp"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check whether the process is running
         * @description Does not check PostgreSQL or Redis. For liveness probes.
         */
        get: operations["live"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check whether the service is ready for requests
         * @description A 503 when PostgreSQL is unreachable, and before the process ends. For load balancers.
         */
        get: operations["ready"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/landing_pages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create a Landing Page
         * @description The body may also wrap these fields in a `landing_page` object.
         */
        post: operations["createLandingPage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/landing_pages/{public_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the document of a Landing Page
         * @description Returns the document byte for byte as it was sent. By default, a client address may read 30 times a minute, or 1,000 times from an allowed host. Reads with the status 304 or 404 count, too. The `RateLimit` header contains the number of reads left; if the service has several processes, the real number may be higher.
         */
        get: operations["readDocument"];
        put?: never;
        post?: never;
        delete?: never;
        /**
         * Respond to the CORS preflight of a document
         * @description Scripts of any origin may read documents.
         */
        options: operations["askForDocument"];
        /**
         * Read the document of a Landing Page (headers only)
         * @description Returns the document byte for byte as it was sent. By default, a client address may read 30 times a minute, or 1,000 times from an allowed host. Reads with the status 304 or 404 count, too. The `RateLimit` header contains the number of reads left; if the service has several processes, the real number may be higher.
         */
        head: operations["headDocument"];
        patch?: never;
        trace?: never;
    };
    "/manage/deleted_pages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the Landing Pages in the trash
         * @description The last deleted one comes first. Other routes answer 404 for these pages.
         */
        get: operations["listDeletedPages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/deleted_pages/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove a Landing Page in the trash
         * @description The page, its versions and its read counts are gone for good.
         */
        delete: operations["removeDeletedPage"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/deleted_pages/{id}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Take a Landing Page out of the trash
         * @description The page is as it was, with its ids, key, versions, read counts and draft. If it was published, readers get it again.
         */
        post: operations["restoreDeletedPage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_page_summaries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the caller's Landing Pages without their documents
         * @description For an overview of many pages: what each is called, how large it is and how often it is read.
         */
        get: operations["listLandingPageSummaries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the caller's Landing Pages
         * @description If the documents are large, a response may have fewer than `limit` records even though there are more. The `Link` header contains the URL of the next records. The `ETag` is that of this part of the list. To learn what has changed, pass as `updated_since` the latest `updated_at` that you know, minus 10 seconds.
         */
        get: operations["listLandingPages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read one of the caller's Landing Pages
         * @description The `ETag` of the response names this version of the page, for `If-Match` and `If-None-Match`.
         */
        get: operations["getLandingPage"];
        put?: never;
        post?: never;
        /**
         * Delete a Landing Page
         * @description Readers get a 404 immediately. The page goes to the trash, from which it can be restored for some days (`TRASH_DAYS`, by default 30; with 0, it is removed at once).
         */
        delete: operations["deleteLandingPage"];
        options?: never;
        head?: never;
        /**
         * Replace the document or the key of a Landing Page
         * @description Replaces the whole document. Readers see the new document immediately. Another `key` changes `updated_at` and the ETag of the record, but makes no version. An empty object changes nothing, and the response is the current page. The body may also wrap these fields in a `landing_page` object.
         */
        patch: operations["updateLandingPage"];
        trace?: never;
    };
    "/manage/landing_pages/{id}/document": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the document of one of the caller's Landing Pages
         * @description Returns the document byte for byte as it was sent, without the record.
         */
        get: operations["getDocument"];
        /**
         * Replace the document of a Landing Page
         * @description The body is the document itself. The service stores it byte for byte, including white space around it. Readers see the new document immediately.
         */
        put: operations["putDocument"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change parts of the document of a Landing Page
         * @description Takes a JSON Patch or a JSON Merge Patch of at most 64 KiB and applies it to the text of the document: every byte that it does not name stays as it was. Without `If-Match`, concurrent patches are all applied, one after the other. If they carry the same `If-Match`, only the first succeeds.
         */
        patch: operations["patchDocument"];
        trace?: never;
    };
    "/manage/landing_pages/{id}/draft": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the draft of a Landing Page
         * @description Returns the draft byte for byte as it was sent. 404 if the page has none.
         */
        get: operations["getDraft"];
        /**
         * Write the draft of a Landing Page
         * @description The body is the draft itself, which is stored byte for byte. A page has at most one draft. Readers do not see it until it is published.
         */
        put: operations["putDraft"];
        post?: never;
        /**
         * Discard the draft of a Landing Page
         * @description The document stays as it is. 404 if the page has no draft.
         */
        delete: operations["discardDraft"];
        options?: never;
        head?: never;
        /**
         * Change parts of the draft of a Landing Page
         * @description As for the document. Without a draft, the patch is applied to the document, and the result becomes the draft; `If-Match` then names the document. The operation `test` needs a key with `pages:read`, too.
         */
        patch: operations["patchDraft"];
        trace?: never;
    };
    "/manage/landing_pages/{id}/preview_links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the preview links of a Landing Page, newest first
         * @description Without their tokens. Expired links are not included.
         */
        get: operations["listPreviewLinks"];
        put?: never;
        /**
         * Create a preview link of a Landing Page
         * @description Whoever has the `token` can read the draft of this page, or its document if there is no draft, published or not. The link is valid until it expires or is deleted. A page can have 20 links that have not expired. A new password and a confirmed email address delete all links of the account.
         */
        post: operations["createPreviewLink"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/preview_links/{link_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Delete a preview link
         * @description The link is refused immediately, on all replicas.
         */
        delete: operations["deletePreviewLink"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/publication": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show whether a Landing Page is published, and what its draft is
         * @description What the record does not show, because a draft does not change it.
         */
        get: operations["getPublication"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/publish": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Publish the draft of a Landing Page, or the page itself
         * @description The draft becomes the document, as a new version, and readers get it immediately. `If-Match` names the draft, so that what was read is what is published. Without a draft, an unpublished page is published as it is, and `If-Match` names the page. If the document has changed since the draft was begun, the response is a 409, unless `base_version` names the current version. `publish_at` of the schedule is removed.
         */
        post: operations["publishLandingPage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/reads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show how often a Landing Page was read, by hour or day
         * @description Public reads with the status 200 or 304, in ascending order, with zeros where there were none. Without parameters: the last 24 hours. A read is usually counted within ten seconds. Hours are kept for 35 days, days for two years.
         */
        get: operations["listLandingPageReads"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/revisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the versions of a Landing Page, newest first
         * @description Each write that changes the document adds a version, and so does each change between published, unpublished and deleted. The current version is always kept; the service removes earlier versions when there are too many (`REVISIONS_MAX`, `REVISIONS_DAYS`, `REVISIONS_MAX_BYTES`).
         */
        get: operations["listRevisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/revisions/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the document of a version
         * @description Returns the document of the version byte for byte as it was sent.
         */
        get: operations["getRevision"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/revisions/{version}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Restore a version of a Landing Page
         * @description Writes the document of the version as a new version, which readers see immediately. If the current document has the same bytes, nothing changes.
         */
        post: operations["restoreRevision"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/schedule": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Show when a Landing Page will be published and unpublished
         * @description Without a schedule, both times are null.
         */
        get: operations["getSchedule"];
        /**
         * Set when a Landing Page will be published and unpublished
         * @description Replaces the schedule. At `publish_at` the draft becomes the document, whatever that is by then; an unpublished page without a draft is published as it is. Until then, the draft cannot be changed. Times have to be later than now, by the database's clock, and within five years, `unpublish_at` later than `publish_at`. An account can have 1000 pages with a schedule. If both times are null, the schedule is removed. `If-Match` names the draft, or without one the page.
         */
        put: operations["putSchedule"];
        post?: never;
        /**
         * Remove the schedule of a Landing Page
         * @description The draft can be changed again. A page without a schedule stays as it is.
         */
        delete: operations["deleteSchedule"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/{id}/unpublish": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Unpublish a Landing Page
         * @description Readers get the 404 of an unknown page until it is published again. Its document can still be written. An unpublished page stays as it is. `unpublish_at` of its schedule is removed.
         */
        post: operations["unpublishLandingPage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/manage/landing_pages/by-key/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the Landing Page with a key
         * @description Returns the record of the page. 404 if no page has the key, or the page is in the trash.
         */
        get: operations["getLandingPageByKey"];
        /**
         * Create the Landing Page with a key, or replace its document
         * @description The body is the document itself, which is stored byte for byte. If no page has the key, a published page is created, and the response is its record; with `If-None-Match: *`, nothing is replaced. 422 if the page with the key is in the trash.
         */
        put: operations["putLandingPageByKey"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read this API description (OpenAPI 3.1)
         * @description The same description as on the page `/docs`.
         */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/previews/{public_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the draft of a Landing Page with a preview link
         * @description Returns the draft byte for byte as it was sent, or the document if the page has no draft, published or not. The token of the link is taken from the `Authorization` header only. However it fails, the response is the same 401. A link may read 300 times a minute, and a client address may fail 60 times a minute.
         */
        get: operations["readPreview"];
        put?: never;
        post?: never;
        delete?: never;
        /**
         * Respond to the CORS preflight of a preview
         * @description Scripts of any origin may read previews with the token of a link.
         */
        options: operations["askForPreview"];
        /**
         * Read the draft of a Landing Page with a preview link (headers only)
         * @description Returns the draft byte for byte as it was sent, or the document if the page has no draft, published or not. The token of the link is taken from the `Authorization` header only. However it fails, the response is the same 401. A link may read 300 times a minute, and a client address may fail 60 times a minute.
         */
        head: operations["headPreview"];
        patch?: never;
        trace?: never;
    };
    "/uploads/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read the file of an asset
         * @description The content of a URL never changes, so caches may keep it forever. Types that browsers could execute, such as HTML and SVG, are served as downloads. The first request for a variant waits until it is made. After 10 seconds, or if too many wait, the response is a 503.
         */
        get: operations["readFile"];
        put?: never;
        post?: never;
        delete?: never;
        /**
         * Respond to the CORS preflight of a file
         * @description Scripts of any origin may read files.
         */
        options: operations["askForFile"];
        /**
         * Read the file of an asset (headers only)
         * @description The content of a URL never changes, so caches may keep it forever. Types that browsers could execute, such as HTML and SVG, are served as downloads. The first request for a variant waits until it is made. After 10 seconds, or if too many wait, the response is a 503.
         */
        head: operations["headFile"];
        patch?: never;
        trace?: never;
    };
    "/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the caller's webhooks, newest first
         * @description Without their secrets.
         */
        get: operations["listWebhooks"];
        put?: never;
        /**
         * Create a webhook
         * @description It gets a signed `POST` when readers of a page get something else than before, as soon as no replica answers with the older version. An account can have 10 webhooks.
         */
        post: operations["createWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/webhooks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read one of the caller's webhooks
         * @description Without its secret.
         */
        get: operations["getWebhook"];
        put?: never;
        post?: never;
        /**
         * Delete a webhook
         * @description Messages that wait are deleted with it.
         */
        delete: operations["deleteWebhook"];
        options?: never;
        head?: never;
        /**
         * Change a webhook
         * @description Fields that are missing stay as they are. `"active": true` also sends what has waited.
         */
        patch: operations["changeWebhook"];
        trace?: never;
    };
    "/webhooks/{id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the messages of a webhook, newest first
         * @description Those that were sent are kept for 30 days, and at most 1,000 of each webhook.
         */
        get: operations["listDeliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/webhooks/{id}/deliveries/{delivery_id}/redeliver": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a message again
         * @description A new message tells the current state of the page.
         */
        post: operations["redeliver"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/webhooks/{id}/secret": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replace the secret of a webhook
         * @description For 24 hours the old secret signs, too. Then only the new one does.
         */
        post: operations["replaceWebhookSecret"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/webhooks/{id}/sync": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send the current state of every page
         * @description For a receiver that has lost something. With `batch_seconds` it is one message.
         */
        post: operations["syncWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/webhooks/{id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a test message
         * @description The message `webhook.test` is tried once, also while the webhook is paused.
         */
        post: operations["testWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AccountSettings: {
            /**
             * @description The address at which the website of the account shows a page, for links of the console; null if there is none. It must be an https:// address, or http:// on localhost, without a user name; after the host it may contain {public_id}, {id} and {token}, but no other braces and no white space. The console fills in these values of the page.
             * @example https://www.example.com/preview/{public_id}
             */
            preview_url: string | null;
        };
        Alive: {
            /** @constant */
            status: "ok";
        };
        ApiKey: {
            /** Format: date-time */
            created_at: string;
            /** @description Time from which the key is refused; null for never */
            expires_at: string | null;
            /**
             * Format: uuid
             * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
             */
            id: string;
            /** @description Time of the last use, to the minute; null before the first */
            last_used_at: string | null;
            /** @example Nightly build */
            name: string;
            /**
             * @description What the key gives access to
             * @example [
             *       "pages:read",
             *       "pages:write"
             *     ]
             */
            scopes: ("pages:read" | "drafts:write" | "pages:write" | "assets:read" | "assets:write")[];
        };
        Asset: {
            /** @example 70 */
            byte_size: number;
            /**
             * @description SHA-256 of the bytes, hex
             * @example 6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0
             */
            checksum: string;
            /**
             * @description Detected from the bytes; the type sent by the client is used only if nothing is detected
             * @example image/png
             */
            content_type: string;
            /** Format: date-time */
            created_at: string;
            /**
             * @description The base name of the file that the client sent, without invisible characters
             * @example dot.png
             */
            filename: string;
            /**
             * @description In pixels; null if the file is not an image
             * @example 1
             */
            height: number | null;
            /** Format: uuid */
            id: string;
            /**
             * Format: uri
             * @description Public URL of the file
             * @example https://landfall.example.com/uploads/7Hq2LJtB7sZ4uNfE8aGd1o.png
             */
            url: string;
            /** @description Smaller copies of a picture, the narrowest first. Their orientation is applied, and they have no metadata. Each is made by the first request for it. The list is empty for other files, and for pictures that are too narrow, too large or can not be decoded. */
            variants: components["schemas"]["AssetVariant"][];
            /**
             * @description In pixels; null if the file is not an image
             * @example 1
             */
            width: number | null;
        };
        AssetReference: {
            /**
             * Format: uuid
             * @description The `id` of the page
             */
            id: string;
            /**
             * @description The `public_id` of the page
             * @example 4nJ8sQzR2bXw7kLmT0yHcV
             */
            public_id: string;
        };
        /**
         * @example {
         *       "url": "https://landfall.example.com/uploads/7Hq2LJtB7sZ4uNfE8aGd1o/w640.webp",
         *       "width": 640,
         *       "height": 480,
         *       "content_type": "image/webp"
         *     }
         */
        AssetVariant: {
            content_type: string;
            /** @description In pixels */
            height: number;
            /**
             * Format: uri
             * @description Public URL of the variant
             */
            url: string;
            /** @description In pixels */
            width: number;
        };
        AssetWithReferences: {
            /** @example 70 */
            byte_size: number;
            /**
             * @description SHA-256 of the bytes, hex
             * @example 6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0
             */
            checksum: string;
            /**
             * @description Detected from the bytes; the type sent by the client is used only if nothing is detected
             * @example image/png
             */
            content_type: string;
            /** Format: date-time */
            created_at: string;
            /**
             * @description The base name of the file that the client sent, without invisible characters
             * @example dot.png
             */
            filename: string;
            /**
             * @description In pixels; null if the file is not an image
             * @example 1
             */
            height: number | null;
            /** Format: uuid */
            id: string;
            /**
             * Format: uri
             * @description Public URL of the file
             * @example https://landfall.example.com/uploads/7Hq2LJtB7sZ4uNfE8aGd1o.png
             */
            url: string;
            /** @description The pages whose document or draft contains the name of the file, or of a variant: the newest 100, newest first */
            used_by: components["schemas"]["AssetReference"][];
            /** @description Smaller copies of a picture, the narrowest first. Their orientation is applied, and they have no metadata. Each is made by the first request for it. The list is empty for other files, and for pictures that are too narrow, too large or can not be decoded. */
            variants: components["schemas"]["AssetVariant"][];
            /**
             * @description In pixels; null if the file is not an image
             * @example 1
             */
            width: number | null;
        };
        BrowserSession: {
            /**
             * @description Send it as `Authorization: Bearer …`. It expires after 15 minutes by default.
             * @example eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl
             */
            access_token: string;
            user: components["schemas"]["User"];
        };
        BrowserSessionFields: {
            /** @description The refresh token of a sign-in; without it, that of the cookie is used */
            refresh_token?: string;
        };
        ChangePassword: {
            current_password: string;
            /** @description Must not be the email address or one of the most common passwords */
            password: string;
            /** @description The password, repeated */
            password_confirmation: string;
        };
        ChangeWebhook: {
            /** @description False while it is paused. Messages then wait. */
            active?: boolean;
            /** @description How long changes are collected for one message about all pages, `pages.changed`; 0 for a message about each page */
            batch_seconds?: number;
            /** @description What it gets messages about; by default everything */
            events?: ("page.published" | "page.unpublished" | "page.deleted")[];
            /**
             * @description For the list of webhooks
             * @example Website build
             */
            name?: string | null;
            /** @description The ids of the pages that it gets messages about; null for all */
            pages?: string[] | null;
            /**
             * @description Where messages are sent: an `https://` address without a user name. Only public addresses are reached, and those in `WEBHOOK_NETWORKS`, which may also have `http://`.
             * @example https://build.example.com/hooks/landfall
             */
            url?: string;
        };
        ConfirmEmail: {
            /** @description What follows `#token=` in the link of the mail */
            token: string;
        };
        CreateApiKey: {
            current_password: string;
            /** @description Time from which the key is refused (RFC 3339); null or missing for never */
            expires_at?: string | null;
            /** @description For the list of keys, mails and the authors of versions */
            name: string;
            /** @description At least one. A scope to write does not include the scope to read. */
            scopes: ("pages:read" | "drafts:write" | "pages:write" | "assets:read" | "assets:write")[];
        };
        CreatePreviewLink: {
            /** @description Seconds until the link expires; a week by default */
            expires_in?: number;
            /** @description For the list of links */
            name?: string | null;
        };
        CreateWebhook: {
            /** @description How long changes are collected for one message about all pages, `pages.changed`; 0 for a message about each page */
            batch_seconds?: number;
            /** @description What it gets messages about; by default everything */
            events?: ("page.published" | "page.unpublished" | "page.deleted")[];
            /**
             * @description For the list of webhooks
             * @example Website build
             */
            name?: string | null;
            /** @description The ids of the pages that it gets messages about; null for all */
            pages?: string[] | null;
            /**
             * @description Where messages are sent: an `https://` address without a user name. Only public addresses are reached, and those in `WEBHOOK_NETWORKS`, which may also have `http://`.
             * @example https://build.example.com/hooks/landfall
             */
            url: string;
        };
        CurrentUser: {
            user: components["schemas"]["User"];
        };
        DeleteAccount: {
            /** @description The password of the account */
            password: string;
        };
        DeletedLandingPage: {
            /** @description Size of the document */
            byte_size: number;
            /** Format: date-time */
            deleted_at: string;
            /**
             * Format: uuid
             * @description Identifies the page in the owner's routes
             */
            id: string;
            /**
             * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
             * @example summer-sale
             */
            key: string | null;
            /**
             * @description The string in the document's own `title`, else `name`, else `headline`, cut to 200 characters. Null if there is none, or if it is blank, or if it lies behind the first 16384 characters of the document.
             * @example Hello
             */
            label: string | null;
            /**
             * @description Identifies the page in the public read. It cannot be guessed.
             * @example 4nJ8sQzR2bXw7kLmT0yHcV
             */
            public_id: string;
            /** @description Whether readers get the document when the page is restored */
            published: boolean;
            /**
             * Format: date-time
             * @description When the page is removed for good
             */
            purged_at: string;
        };
        Delivery: {
            attempts: number;
            /**
             * Format: date-time
             * @description Time of the first change that it stands for
             */
            created_at: string;
            /** @description Duration of the last attempt, in milliseconds */
            duration_ms: number | null;
            /** @description Why the last attempt has failed; null if it has not */
            error: string | null;
            /**
             * Format: uuid
             * @description The `webhook-id` of the message
             */
            id: string;
            /** @description Time of the last attempt; null before the first */
            last_attempt_at: string | null;
            /** @description Changes that it stands for besides the last one */
            merged: number;
            /** @description When it is sent at the earliest; null if it is not, or the webhook is paused */
            next_attempt_at: string | null;
            /** @description Null in messages that are not about one page */
            page: {
                /** Format: uuid */
                id: string;
                public_id: string;
            } | null;
            /** @enum {string} */
            state: "waiting" | "sending" | "delivered" | "failed";
            /** @description Status of the last response; null without one */
            status: number | null;
            /** @description An event of a page, `pages.changed` or `webhook.test` */
            type: string;
            /** @description The version of the page; null without a page */
            version: number | null;
        };
        /**
         * @description A JSON object or array, by default of at most 1 MiB, nested at most 100 levels deep. The service stores it byte for byte as it was sent.
         * @example {
         *       "title": "Hello",
         *       "price": 1
         *     }
         */
        Document: {
            [key: string]: unknown;
        } | unknown[];
        /** @description The body of every error response */
        Errors: {
            /** @description Sentences that describe what is wrong */
            errors: string[];
        };
        /** @description Operations (RFC 6902), which are applied in order: all or none */
        JsonPatch: components["schemas"]["JsonPatchOperation"][];
        JsonPatchOperation: {
            /** @description A JSON Pointer; for `move` and `copy` */
            from?: string;
            op: "add" | "remove" | "replace" | "move" | "copy" | "test";
            /**
             * @description A JSON Pointer (RFC 6901)
             * @example /prices/0
             */
            path: string;
            /** @description For `add`, `replace` and `test` */
            value?: unknown;
        };
        LandingPage: {
            /** Format: date-time */
            created_at: string;
            current_data: components["schemas"]["Document"];
            /**
             * Format: uuid
             * @description Identifies the page in the owner's routes
             */
            id: string;
            /**
             * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
             * @example summer-sale
             */
            key: string | null;
            /**
             * @description Identifies the page in the public read. It cannot be guessed.
             * @example 4nJ8sQzR2bXw7kLmT0yHcV
             */
            public_id: string;
            /** @description Whether readers get the document. If not, they get a 404. */
            published: boolean;
            /** Format: date-time */
            updated_at: string;
            /** @description Grows by one with each change of the page */
            version: number;
        };
        LandingPageInput: {
            current_data: components["schemas"]["Document"];
            /**
             * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
             * @example summer-sale
             */
            key?: string | null;
        };
        LandingPageSummary: {
            /** @description Size of the document */
            byte_size: number;
            /** Format: date-time */
            created_at: string;
            /** @description Whether the page has a draft */
            has_draft: boolean;
            /**
             * Format: uuid
             * @description Identifies the page in the owner's routes
             */
            id: string;
            /**
             * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
             * @example summer-sale
             */
            key: string | null;
            /**
             * @description The string in the document's own `title`, else `name`, else `headline`, cut to 200 characters. Null if there is none, or if it is blank, or if it lies behind the first 16384 characters of the document.
             * @example Hello
             */
            label: string | null;
            /**
             * @description Identifies the page in the public read. It cannot be guessed.
             * @example 4nJ8sQzR2bXw7kLmT0yHcV
             */
            public_id: string;
            /** @description When the draft, or the unpublished page, will be published; null for never */
            publish_at: string | null;
            /** @description Whether readers get the document. If not, they get a 404. */
            published: boolean;
            /** @description How often the page was read (200 and 304 together) in each of the last 24 hours (UTC), oldest first. The last one is the current hour. */
            reads: number[];
            /** @description When the page will be unpublished; null for never */
            unpublish_at: string | null;
            /** Format: date-time */
            updated_at: string;
            /** @description Grows by one with each change of the page */
            version: number;
        };
        /** @description An empty object changes nothing */
        LandingPageUpdate: components["schemas"]["LandingPageInput"] | {
            /**
             * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
             * @example summer-sale
             */
            key: string | null;
        } | Record<string, never>;
        /** @description Members to change (RFC 7396); `null` removes a member. An array replaces the whole document. */
        MergePatch: {
            [key: string]: unknown;
        } | unknown[];
        NewApiKey: {
            /** Format: date-time */
            created_at: string;
            /** @description Time from which the key is refused; null for never */
            expires_at: string | null;
            /**
             * Format: uuid
             * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
             */
            id: string;
            /**
             * @description The key, which is shown only once. Send it as `Authorization: Bearer lf_…`.
             * @example lf_3kTMd92iV0aQbYwRr7uXnH5sLzJcE8pG1fKo4tDqP2FzW6
             */
            key: string;
            /** @description Time of the last use, to the minute; null before the first */
            last_used_at: string | null;
            /** @example Nightly build */
            name: string;
            /**
             * @description What the key gives access to
             * @example [
             *       "pages:read",
             *       "pages:write"
             *     ]
             */
            scopes: ("pages:read" | "drafts:write" | "pages:write" | "assets:read" | "assets:write")[];
        };
        NewLandingPage: {
            current_data: components["schemas"]["Document"];
            /**
             * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
             * @example summer-sale
             */
            key?: string | null;
            /** @description Whether readers get the document; true by default */
            published?: boolean;
        };
        NewPreviewLink: {
            /** Format: date-time */
            created_at: string;
            /**
             * Format: date-time
             * @description Time from which the link is refused
             */
            expires_at: string;
            /**
             * Format: uuid
             * @description The `id` of the record
             * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
             */
            id: string;
            /** @description Time of the last use, to the minute; null before the first */
            last_used_at: string | null;
            /** @description For the list of links; null without one */
            name: string | null;
            /**
             * @description The token, which is shown only once. Send it as `Authorization: Bearer lfp_…`.
             * @example lfp_3kTMd92iV0aQbYwRr7uXnH5sLzJcE8pG1fKo4tDq26BzXy
             */
            token: string;
        };
        NewWebhook: {
            /** @description False while it is paused. Messages then wait. */
            active: boolean;
            /** @description How long changes are collected for one message about all pages, `pages.changed`; 0 for a message about each page */
            batch_seconds: number;
            /** Format: date-time */
            created_at: string;
            /** @description What it gets messages about; by default everything */
            events: ("page.published" | "page.unpublished" | "page.deleted")[];
            /** @description Time of the first failure since the last success; null without one */
            failing_since: string | null;
            /**
             * Format: uuid
             * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b58
             */
            id: string;
            /**
             * @description For the list of webhooks
             * @example Website build
             */
            name: string | null;
            /** @description The ids of the pages that it gets messages about; null for all */
            pages: string[] | null;
            /**
             * @description Why the service has paused it: `gone` after a 410, `failing` after three days without a success; null if it has not
             * @enum {string|null}
             */
            paused_reason: "gone" | "failing" | null;
            /**
             * @description The key of the signatures (Standard Webhooks), which is shown only once
             * @example whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwOjLvS2LxYqE=
             */
            secret: string;
            /**
             * @description Where messages are sent: an `https://` address without a user name. Only public addresses are reached, and those in `WEBHOOK_NETWORKS`, which may also have `http://`.
             * @example https://build.example.com/hooks/landfall
             */
            url: string;
        };
        PreviewLink: {
            /** Format: date-time */
            created_at: string;
            /**
             * Format: date-time
             * @description Time from which the link is refused
             */
            expires_at: string;
            /**
             * Format: uuid
             * @description The `id` of the record
             * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
             */
            id: string;
            /** @description Time of the last use, to the minute; null before the first */
            last_used_at: string | null;
            /** @description For the list of links; null without one */
            name: string | null;
        };
        Publication: {
            /** @description Whether the CDN was told of the last change. Null if the service purges no CDN, or if the last change is older than 30 days. */
            cdn: {
                /** @description When the CDN was purged, or the last attempt failed; null while the purge waits */
                at: string | null;
                /** @description `failed` after three days of attempts */
                state: "waiting" | "purged" | "failed";
                /** @description The version that readers got, or no longer get */
                version: number;
            } | null;
            /** @description The draft; null without one */
            draft: {
                author: {
                    /** @description The e-mail of the user, or the name of the key, at that time */
                    name: string;
                    type: "user" | "api_key";
                };
                /** @description The version when the draft was begun */
                base_version: number;
                /** @description Size of the draft */
                byte_size: number;
                /** Format: date-time */
                created_at: string;
                /** @description The ETag of the draft, with its quotes */
                etag: string;
                /** @description Whether the document has changed since then */
                outdated: boolean;
                /** Format: date-time */
                updated_at: string;
            } | null;
            /** @description Why the last scheduled publication failed. Always null: none can fail in this release. */
            failure: {
                /** Format: date-time */
                at: string;
                reason: string;
            } | null;
            /** @description When the draft, or the unpublished page, will be published; null for never */
            publish_at: string | null;
            /** @description Whether readers get the document. If not, they get a 404. */
            published: boolean;
            /** @description When the page will be unpublished; null for never */
            unpublish_at: string | null;
            /** @description Grows by one with each change of the page */
            version: number;
        };
        Publish: {
            /** @description The current version of the page: publish the draft although the document has changed since it was begun */
            base_version?: number;
        };
        PutSchedule: {
            /** @description When the draft, or the unpublished page, is published (RFC 3339, with an offset); null for never */
            publish_at: string | null;
            /** @description When the page is unpublished (RFC 3339, with an offset); null for never */
            unpublish_at: string | null;
        };
        QueuedMessages: {
            queued: number;
        };
        ReadCount: {
            /**
             * Format: date-time
             * @description Start of the hour or day, in UTC
             */
            at: string;
            /** @description Reads answered with 304, because the reader's copy was current */
            not_modified: number;
            /** @description Reads answered with the document (200), by GET or HEAD. All reads are `reads` + `not_modified`. */
            reads: number;
        };
        Readiness: {
            /** @constant */
            database: "ok";
            redis: "ok" | "away" | "not used";
            /** @description `degraded` means that Redis is unreachable and each process counts limits separately */
            status: "ok" | "degraded";
        };
        RefreshToken: {
            /** @description The latest refresh token of the session */
            refresh_token: string;
        };
        RequestPasswordReset: {
            /** @description Case is ignored */
            email: string;
        };
        ResetPassword: {
            /** @description Must not be the email address or one of the most common passwords */
            password: string;
            /** @description The password, repeated */
            password_confirmation: string;
            /** @description What follows `#token=` in the link of the mail */
            token: string;
        };
        Revision: {
            author: {
                /** @description The e-mail of the user, or the name of the key, at that time */
                name: string;
                type: "user" | "api_key";
            };
            /** @description Size of the document */
            byte_size: number;
            /**
             * Format: date-time
             * @description When the version was written
             */
            created_at: string;
            /** @description The ETag of the version's document, with its quotes */
            etag: string;
            /** @description Whether readers got this version. False also for the version that was put into the trash. */
            published: boolean;
            /** @description The version that was restored; null if this version is not a restored one */
            restored_from: number | null;
            /** @description Whether a schedule made this version. Its author is who set the schedule. */
            scheduled: boolean;
            version: number;
        };
        Schedule: {
            /** @description When the draft, or the unpublished page, will be published; null for never */
            publish_at: string | null;
            /** @description When the page will be unpublished; null for never */
            unpublish_at: string | null;
        };
        Session: {
            /**
             * @description The client address of that request; null for a session that an older release started
             * @example 203.0.113.7
             */
            address: string | null;
            /**
             * Format: date-time
             * @description Time of the sign-in
             */
            created_at: string;
            /** @description Whether the access token of this request belongs to the session */
            current: boolean;
            /**
             * Format: uuid
             * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
             */
            id: string;
            /** @description Time of the last use, to the minute; null before the first */
            last_used_at: string | null;
            /**
             * @description The `User-Agent` of the first request of that minute, cut to 256 characters; null without one
             * @example curl/8.14.1
             */
            user_agent: string | null;
        };
        SignIn: {
            user: {
                /** @description Case is ignored */
                email: string;
                password: string;
            };
        };
        SignUp: {
            user: {
                /** @description At most 254 characters. White space around the address is removed, and case is ignored. Quoted local parts are refused, and so are characters that mail programs read as others, such as full-width letters. */
                email: string;
                /** @description Must not be the email address or one of the most common passwords */
                password: string;
                /** @description The password, repeated */
                password_confirmation: string;
            };
        };
        Tokens: {
            /**
             * @description Send it as `Authorization: Bearer …`. It expires after 15 minutes by default.
             * @example eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl
             */
            access_token: string;
            /**
             * @description Exchange it once at `/auth/refresh`, or send it to sign out. It expires after 30 days by default.
             * @example w3Yc0vXkR9mHq2LJtB7sZ4uNfE8aGd1oPi5xKyCrVbM
             */
            refresh_token: string;
        };
        User: {
            /**
             * @description The email address, trimmed and in lower case
             * @example you@example.com
             */
            email: string;
            /** @description When the user confirmed to receive mail at the address; null before */
            email_confirmed_at: string | null;
            /** @example 1 */
            id: number;
        };
        UserWithTokens: {
            /**
             * @description Send it as `Authorization: Bearer …`. It expires after 15 minutes by default.
             * @example eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl
             */
            access_token: string;
            /**
             * @description Exchange it once at `/auth/refresh`, or send it to sign out. It expires after 30 days by default.
             * @example w3Yc0vXkR9mHq2LJtB7sZ4uNfE8aGd1oPi5xKyCrVbM
             */
            refresh_token: string;
            user: components["schemas"]["User"];
        };
        Webhook: {
            /** @description False while it is paused. Messages then wait. */
            active: boolean;
            /** @description How long changes are collected for one message about all pages, `pages.changed`; 0 for a message about each page */
            batch_seconds: number;
            /** Format: date-time */
            created_at: string;
            /** @description What it gets messages about; by default everything */
            events: ("page.published" | "page.unpublished" | "page.deleted")[];
            /** @description Time of the first failure since the last success; null without one */
            failing_since: string | null;
            /**
             * Format: uuid
             * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b58
             */
            id: string;
            /**
             * @description For the list of webhooks
             * @example Website build
             */
            name: string | null;
            /** @description The ids of the pages that it gets messages about; null for all */
            pages: string[] | null;
            /**
             * @description Why the service has paused it: `gone` after a 410, `failing` after three days without a success; null if it has not
             * @enum {string|null}
             */
            paused_reason: "gone" | "failing" | null;
            /**
             * @description Where messages are sent: an `https://` address without a user name. Only public addresses are reached, and those in `WEBHOOK_NETWORKS`, which may also have `http://`.
             * @example https://build.example.com/hooks/landfall
             */
            url: string;
        };
        WebhookSecret: {
            /**
             * @description The key of the signatures (Standard Webhooks), which is shown only once
             * @example whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwOjLvS2LxYqE=
             */
            secret: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: {
        /**
         * @description The Content-Encoding that a request may have; `identity` is none
         * @example identity
         */
        "Accept-Encoding-if-any": string;
        /**
         * @description The media types that a PATCH may have
         * @example application/json
         */
        "Accept-Patch-if-any": string;
        /**
         * @description Unit in which parts of the file can be requested with `Range`
         * @example bytes
         */
        "Accept-Ranges": string;
        /**
         * @description Request headers that scripts of other origins may send
         * @example If-None-Match, X-Request-Id
         */
        "Access-Control-Allow-Headers": string;
        /**
         * @description Methods that scripts of other origins may use
         * @example GET, HEAD, OPTIONS
         */
        "Access-Control-Allow-Methods": string;
        /**
         * @description Web pages of any origin may read the response
         * @example *
         */
        "Access-Control-Allow-Origin": string;
        /**
         * @description Response headers that scripts of other origins may read
         * @example ETag, Retry-After, X-Request-Id
         */
        "Access-Control-Expose-Headers": string;
        /**
         * @description Seconds for which browsers may cache this response
         * @example 86400
         */
        "Access-Control-Max-Age": number;
        /**
         * @description Seconds since a stale document was last known to be current
         * @example 12
         */
        "Age-if-any": number;
        /**
         * @description The methods that the URL supports
         * @example GET, HEAD, OPTIONS
         */
        Allow: string;
        /**
         * @description Who may cache the response, and for how long
         * @example no-store
         */
        "Cache-Control": string;
        /**
         * @description Who may cache the response, and for how long
         * @example no-store
         */
        "Cache-Control-if-any": string;
        /**
         * @description Where the document came from: `landfall; hit` (memory), `landfall; fwd=miss` (Redis or PostgreSQL), `landfall; hit; detail=stale` (memory, while PostgreSQL is unreachable)
         * @example landfall; hit
         */
        "Cache-Status": string;
        /**
         * @description The tag by which the service purges Cloudflare or another CDN
         * @example lf-7Hq2LJtB7sZ4uNfE8aGd1o
         */
        "Cache-Tag-if-any": string;
        /**
         * @description `inline` for images, audio, video, fonts and PDF, `attachment` with the name of the file for everything else
         * @example inline
         */
        "Content-Disposition": string;
        /**
         * @description Compression of the body, `br` or `gzip`, chosen by `Accept-Encoding`
         * @example br
         */
        "Content-Encoding-if-any": string;
        /**
         * @description Position of this part in the file, and the size of the file in bytes
         * @example bytes 0-99/1234
         */
        "Content-Range": string;
        /**
         * @description Version of the response, for `If-None-Match` and `If-Match`. `If-Match` accepts the ETag of a page and that of its document on all routes of the page. That of a compressed response ends with `-br` or `-gzip`.
         * @example "NRbMYOdxUAbdrPSZkCyDGfRL8fUxR6qnXzJ0WlBpRRs"
         */
        ETag: string;
        /**
         * @description Version of the response, for `If-None-Match` and `If-Match`. `If-Match` accepts the ETag of a page and that of its document on all routes of the page. That of a compressed response ends with `-br` or `-gzip`.
         * @example "NRbMYOdxUAbdrPSZkCyDGfRL8fUxR6qnXzJ0WlBpRRs"
         */
        "ETag-if-any": string;
        /**
         * @description Which document this is: `draft`, or `document` if the page has no draft
         * @example draft
         */
        "Landfall-Preview": string;
        /**
         * @description What the change has reached. `replicas`: no replica that is connected to Redis answers a new read with an older version. `cdn`: a CDN was purged of it. Only with `Prefer: wait`
         * @example replicas
         */
        "Landfall-Publication-if-any": string;
        /**
         * @description Time of the last change
         * @example Fri, 21 Nov 2025 16:34:05 GMT
         */
        "Last-Modified": string;
        /**
         * @description Time of the last change
         * @example Fri, 21 Nov 2025 16:34:05 GMT
         */
        "Last-Modified-if-any": string;
        /**
         * @description Relative URL of the next page of the list; absent on the last page
         * @example </assets?limit=50&cursor=AZp8Hl9gfDqdKw9qTI4bVw>; rel="next"
         */
        "Link-if-any": string;
        /**
         * @description Where the new record is, relative to the URL of the request
         * @example /assets/019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
         */
        Location: string;
        /**
         * @description `wait`: readers get the change everywhere. Only with `Prefer: wait`
         * @example wait
         */
        "Preference-Applied-if-any": string;
        /**
         * @description Remaining reads: `r` reads in the next `t` seconds (draft-ietf-httpapi-ratelimit-headers)
         * @example "public";r=29;t=60
         */
        RateLimit: string;
        /**
         * @description Remaining reads: `r` reads in the next `t` seconds (draft-ietf-httpapi-ratelimit-headers)
         * @example "public";r=29;t=60
         */
        "RateLimit-if-any": string;
        /**
         * @description The limit that applies: `q` reads in `w` seconds, for all clients (`public`) or for allowed hosts (`allowed-host`)
         * @example "public";q=30;w=60
         */
        "RateLimit-Policy": string;
        /**
         * @description The limit that applies: `q` reads in `w` seconds, for all clients (`public`) or for allowed hosts (`allowed-host`)
         * @example "public";q=30;w=60
         */
        "RateLimit-Policy-if-any": string;
        /**
         * @description Seconds to wait before the next attempt
         * @example 34
         */
        "Retry-After": number;
        /**
         * @description Seconds to wait before the next attempt
         * @example 34
         */
        "Retry-After-if-any": number;
        /**
         * @description The cookie with the next refresh token, or without a value to delete it
         * @example __Secure-landfall_session=; Max-Age=0; Path=/auth/browser_session; HttpOnly; SameSite=Strict; Secure
         */
        "Set-Cookie": string;
        /**
         * @description The cookie with the next refresh token, or without a value to delete it
         * @example __Secure-landfall_session=; Max-Age=0; Path=/auth/browser_session; HttpOnly; SameSite=Strict; Secure
         */
        "Set-Cookie-if-any": string;
        /**
         * @description The tag by which the service purges Fastly
         * @example lf-7Hq2LJtB7sZ4uNfE8aGd1o
         */
        "Surrogate-Key-if-any": string;
        /**
         * @description The request headers on which the response depends
         * @example Accept-Encoding
         */
        Vary: string;
        /**
         * @description How to authenticate; `Bearer error="invalid_token"` if the token or key is not valid, `Bearer error="insufficient_scope"` with the missing scope of a key
         * @example Bearer
         */
        "WWW-Authenticate": string;
        /**
         * @description How to authenticate; `Bearer error="invalid_token"` if the token or key is not valid, `Bearer error="insufficient_scope"` with the missing scope of a key
         * @example Bearer
         */
        "WWW-Authenticate-if-any": string;
        /**
         * @description Id of the request: the valid id that the client sent, or a generated one. The log contains it, so include it in problem reports.
         * @example fQ2xVbY0p9Lk-1c
         */
        "X-Request-Id": string;
        /**
         * @description Search engines must not index the response
         * @example noindex
         */
        "X-Robots-Tag": string;
        /**
         * @description Search engines must not index the response
         * @example noindex
         */
        "X-Robots-Tag-if-any": string;
        /**
         * @description The tag by which the service purges Varnish
         * @example lf-7Hq2LJtB7sZ4uNfE8aGd1o
         */
        "xkey-if-any": string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listApiKeys: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description API keys, newest first */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Link: components["headers"]["Link-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiKey"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    createApiKey: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "Nightly build",
                 *       "scopes": [
                 *         "pages:read",
                 *         "pages:write"
                 *       ],
                 *       "current_password": "correct horse"
                 *     }
                 */
                "application/json": components["schemas"]["CreateApiKey"];
            };
        };
        responses: {
            /** @description The key, which is shown only once */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Location: components["headers"]["Location"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewApiKey"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Confirm your email address first: POST /auth/email_confirmations mails another link"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Current password is wrong"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many failed sign-ins, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getApiKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The API key */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiKey"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    deleteApiKey: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Confirm your email address first: POST /auth/email_confirmations mails another link"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    listAssets: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response with this `sort` */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
                /** @description Include only records with this text in the file name, or the asset whose URL or variant it is. Case and accents do not count. A response may have fewer than `limit` records, or none, and still a `Link` to more. */
                q?: string;
                /** @description `created`: newest first; `filename`: by name, A to Z; `byte_size`: largest first */
                sort?: "created" | "filename" | "byte_size";
                /** @description Include only files of this type. `document`: PDF, text and office files. */
                type?: "image" | "audio" | "video" | "font" | "document" | "other";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The assets */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Link: components["headers"]["Link-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Asset"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    createAsset: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "multipart/form-data": {
                    /**
                     * Format: binary
                     * @description The file, with its filename
                     */
                    "asset[file]": string;
                };
            };
        };
        responses: {
            /** @description The asset */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Location: components["headers"]["Location"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Asset"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "File is too large (maximum is 26214400 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be multipart/form-data"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "File can't be blank (it belongs in the form field asset[file])"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description There is no storage space left for uploads */
            507: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is no storage space left for uploads"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getAsset: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The asset */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AssetWithReferences"];
                };
            };
            /** @description Not changed: the client has the current version */
            304: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    deleteAsset: {
        parameters: {
            query?: {
                /** @description `true`: delete the file only if no page uses it */
                if_unused?: "true" | "false";
            };
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The asset is deleted, and its URL returns 404 */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request does not fit the current state of the resource */
            409: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "File is used by 2 pages: 4nJ8sQzR2bXw7kLmT0yHcV, 2fWq0LcXb3mVt9ZsYk7RdA"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "If unused must be true or false"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    renewBrowserSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "refresh_token": "w3Yc0vXkR9mHq2LJtB7sZ4uNfE8aGd1oPi5xKyCrVbM"
                 *     }
                 */
                "application/json": components["schemas"]["BrowserSessionFields"] | null;
            };
        };
        responses: {
            /** @description A new access token, and the account */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Set-Cookie": components["headers"]["Set-Cookie"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BrowserSession"];
                };
            };
            /** @description The browser has no session */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After-if-any"];
                    "Set-Cookie": components["headers"]["Set-Cookie-if-any"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Invalid or expired refresh token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Cookie sessions are accepted only from this service's own pages; open it at https://landfall.example.com"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many requests, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    endBrowserSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Signed out */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Set-Cookie": components["headers"]["Set-Cookie"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After-if-any"];
                    "Set-Cookie": components["headers"]["Set-Cookie-if-any"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Invalid or expired refresh token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Cookie sessions are accepted only from this service's own pages; open it at https://landfall.example.com"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many requests, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    confirmEmail: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "token": "Zk1yV0c0bUxvUjhxTjV0SjJ4QjdzWjR1TmZFOGFHZDE"
                 *     }
                 */
                "application/json": components["schemas"]["ConfirmEmail"];
            };
        };
        responses: {
            /** @description The address is confirmed */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Link is invalid or has expired: ask for a new one"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    requestEmailConfirmation: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A mail is on its way, unless the address is confirmed or got three in this hour */
            202: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    me: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The account */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CurrentUser"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    deleteAccount: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "password": "correct horse"
                 *     }
                 */
                "application/json": components["schemas"]["DeleteAccount"];
            };
        };
        responses: {
            /** @description The account is deleted */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Password is wrong"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many failed sign-ins, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description There is no storage space left for uploads */
            507: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is no storage space left for uploads"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    changePassword: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "current_password": "correct horse",
                 *       "password": "staple battery",
                 *       "password_confirmation": "staple battery"
                 *     }
                 */
                "application/json": components["schemas"]["ChangePassword"];
            };
        };
        responses: {
            /** @description The password is changed */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Current password is wrong"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many failed sign-ins, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    resetPassword: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "token": "Zk1yV0c0bUxvUjhxTjV0SjJ4QjdzWjR1TmZFOGFHZDE",
                 *       "password": "staple battery",
                 *       "password_confirmation": "staple battery"
                 *     }
                 */
                "application/json": components["schemas"]["ResetPassword"];
            };
        };
        responses: {
            /** @description The password is changed */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Link is invalid or has expired: ask for a new one"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    requestPasswordReset: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "email": "you@example.com"
                 *     }
                 */
                "application/json": components["schemas"]["RequestPasswordReset"];
            };
        };
        responses: {
            /** @description If there is such an account, a mail is on its way */
            202: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Email can't be blank"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many requests, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    refresh: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "refresh_token": "w3Yc0vXkR9mHq2LJtB7sZ4uNfE8aGd1oPi5xKyCrVbM"
                 *     }
                 */
                "application/json": components["schemas"]["RefreshToken"];
            };
        };
        responses: {
            /** @description The next tokens of the session */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tokens"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Invalid or expired refresh token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many requests, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    listSessions: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Sessions, newest first */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Link: components["headers"]["Link-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    endOtherSessions: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The other sessions have ended */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    endSession: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session has ended */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getSettings: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The settings */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "preview_url": "https://www.example.com/preview/{public_id}"
                     *     }
                     */
                    "application/json": components["schemas"]["AccountSettings"];
                };
            };
            /** @description Not changed: the client has the current version */
            304: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    putSettings: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "preview_url": "https://www.example.com/preview/{public_id}"
                 *     }
                 */
                "application/json": components["schemas"]["AccountSettings"];
            };
        };
        responses: {
            /** @description The settings */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "preview_url": "https://www.example.com/preview/{public_id}"
                     *     }
                     */
                    "application/json": components["schemas"]["AccountSettings"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Preview url must be an https:// address, or http:// on localhost, without a user name; after the host it may contain {public_id}, {id} and {token}, but no other braces and no white space"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    signIn: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": {
                 *         "email": "you@example.com",
                 *         "password": "correct horse"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["SignIn"];
            };
        };
        responses: {
            /** @description The account, and the tokens of a new session */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserWithTokens"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Invalid email or password"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body must look like {\"user\":{\"email\":\"you@example.com\",\"password\":\"correct horse\"}}"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many failed sign-ins, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    signOut: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "refresh_token": "w3Yc0vXkR9mHq2LJtB7sZ4uNfE8aGd1oPi5xKyCrVbM"
                 *     }
                 */
                "application/json": components["schemas"]["RefreshToken"];
            };
        };
        responses: {
            /** @description Signed out */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    signUp: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user": {
                 *         "email": "you@example.com",
                 *         "password": "correct horse",
                 *         "password_confirmation": "correct horse"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["SignUp"];
            };
        };
        responses: {
            /** @description The account, and the tokens of its first session */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Location: components["headers"]["Location"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserWithTokens"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Sign-up is closed; ask the operator of this service for an account"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Email has already been taken"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many requests, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    live: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The process is running */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Alive"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    ready: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The service is ready */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    createLandingPage: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "current_data": {
                 *         "title": "Hello",
                 *         "price": 1
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["NewLandingPage"] | {
                    /**
                     * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
                     * @example summer-sale
                     */
                    key?: string | null;
                    landing_page: components["schemas"]["NewLandingPage"];
                    /** @description Whether readers get the document; true by default */
                    published?: boolean;
                };
            };
        };
        responses: {
            /** @description The page */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    Location: components["headers"]["Location"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Current data can't be blank"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    readDocument: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `public_id` of the page
                 * @example 4nJ8sQzR2bXw7kLmT0yHcV
                 */
                public_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The document */
            200: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Age: components["headers"]["Age-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Status": components["headers"]["Cache-Status"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified-if-any"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "title": "Hello",
                     *       "price": 1
                     *     }
                     */
                    "application/json": components["schemas"]["Document"];
                };
            };
            /** @description The document has not changed */
            304: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Age: components["headers"]["Age-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Status": components["headers"]["Cache-Status"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified-if-any"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    ETag: components["headers"]["ETag-if-any"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many requests, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    RateLimit: components["headers"]["RateLimit-if-any"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    askForDocument: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The `public_id` of the page
                 * @example 4nJ8sQzR2bXw7kLmT0yHcV
                 */
                public_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The read is allowed */
            204: {
                headers: {
                    "Access-Control-Allow-Headers": components["headers"]["Access-Control-Allow-Headers"];
                    "Access-Control-Allow-Methods": components["headers"]["Access-Control-Allow-Methods"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Access-Control-Max-Age": components["headers"]["Access-Control-Max-Age"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    headDocument: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `public_id` of the page
                 * @example 4nJ8sQzR2bXw7kLmT0yHcV
                 */
                public_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The document */
            200: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Age: components["headers"]["Age-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Status": components["headers"]["Cache-Status"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified-if-any"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The document has not changed */
            304: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Age: components["headers"]["Age-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Status": components["headers"]["Cache-Status"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified-if-any"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    ETag: components["headers"]["ETag-if-any"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    RateLimit: components["headers"]["RateLimit-if-any"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimit-Policy"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    listDeletedPages: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response with this `sort` */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The deleted pages */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Link: components["headers"]["Link-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletedLandingPage"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    removeDeletedPage: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page is removed */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    restoreDeletedPage: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    listLandingPageSummaries: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response with this `sort` */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
                /** @description Include only records with this text in the label, the `key` or the `public_id`. Case and accents do not count. A response may have fewer than `limit` records, or none, and still a `Link` to more. */
                q?: string;
                /** @description `created`: newest first; `updated`: latest change first; `label`: by label, A to Z; pages without one first */
                sort?: "created" | "updated" | "label";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The pages */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Link: components["headers"]["Link-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPageSummary"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    listLandingPages: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response with this `sort` */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
                /** @description Include only records with this text in the label, the `key` or the `public_id`. Case and accents do not count. A response may have fewer than `limit` records, or none, and still a `Link` to more. */
                q?: string;
                /** @description `created`: newest first; `updated`: latest change first; `label`: by label, A to Z; pages without one first */
                sort?: "created" | "updated" | "label";
                /**
                 * @description Include only pages whose `updated_at` is not before this time, the oldest change first. Not with `sort`. A date stands for its start in UTC.
                 * @example 2026-11-26T08:00:00.000Z
                 */
                updated_since?: string;
            };
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The pages */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Link: components["headers"]["Link-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"][];
                };
            };
            /** @description The list is the one that the client has */
            304: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    Link: components["headers"]["Link-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getLandingPage: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description Not changed: the client has the current version */
            304: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    deleteLandingPage: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page is in the trash, or removed, and public reads of it return 404 */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    updateLandingPage: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "current_data": {
                 *         "title": "Hello",
                 *         "price": 1
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["LandingPageInput"] | {
                    /**
                     * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
                     * @example summer-sale
                     */
                    key?: string | null;
                    landing_page: components["schemas"]["LandingPageUpdate"];
                } | {
                    /**
                     * @description A name of the page in your own system, unique in the account; null for none. It must have 1 to 63 characters, only a to z, 0 to 9, ".", "_" and "-", and begin with a letter or digit. Readers never see it.
                     * @example summer-sale
                     */
                    key: string | null;
                } | Record<string, never>;
            };
        };
        responses: {
            /** @description The current page */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Current data must be a JSON object or array"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getDocument: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The document */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "title": "Hello",
                     *       "price": 1
                     *     }
                     */
                    "application/json": components["schemas"]["Document"];
                };
            };
            /** @description Not changed: the client has the current version */
            304: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    putDocument: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        /** @description A JSON object or array, by default of at most 1 MiB, nested at most 100 levels deep. The service stores it byte for byte as it was sent. */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "title": "Hello",
                 *       "price": 1
                 *     }
                 */
                "application/json": components["schemas"]["Document"];
            };
        };
        responses: {
            /** @description The document is stored. `ETag` is the new document's */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body must be a JSON object or array"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    patchDocument: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example [
                 *       {
                 *         "op": "test",
                 *         "path": "/price",
                 *         "value": 1
                 *       },
                 *       {
                 *         "op": "replace",
                 *         "path": "/price",
                 *         "value": 2
                 *       }
                 *     ]
                 */
                "application/json-patch+json": components["schemas"]["JsonPatch"];
                /**
                 * @example {
                 *       "price": 2,
                 *       "discount": null
                 *     }
                 */
                "application/merge-patch+json": components["schemas"]["MergePatch"];
            };
        };
        responses: {
            /** @description The document is patched. `ETag` is the new document's */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request does not fit the current state of the resource */
            409: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Operation 1 (test \"/price\"): the value is different"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json-patch+json or application/merge-patch+json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Operation 1 (replace \"/price\"): there is nothing at this path"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getDraft: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The draft */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "title": "Hello",
                     *       "price": 1
                     *     }
                     */
                    "application/json": components["schemas"]["Document"];
                };
            };
            /** @description Not changed: the client has the current version */
            304: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    putDraft: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        /** @description A JSON object or array, by default of at most 1 MiB, nested at most 100 levels deep. The service stores it byte for byte as it was sent. */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "title": "Hello",
                 *       "price": 1
                 *     }
                 */
                "application/json": components["schemas"]["Document"];
            };
        };
        responses: {
            /** @description The draft is begun. `ETag` is the draft's */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Location: components["headers"]["Location"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The draft is stored. `ETag` is the draft's */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request does not fit the current state of the resource */
            409: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The draft is scheduled to be published at 2027-01-31T08:00:00.000Z, and cannot be changed until then"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body must be a JSON object or array"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    discardDraft: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The draft is gone */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request does not fit the current state of the resource */
            409: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The draft is scheduled to be published at 2027-01-31T08:00:00.000Z, and cannot be changed until then"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    patchDraft: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example [
                 *       {
                 *         "op": "test",
                 *         "path": "/price",
                 *         "value": 1
                 *       },
                 *       {
                 *         "op": "replace",
                 *         "path": "/price",
                 *         "value": 2
                 *       }
                 *     ]
                 */
                "application/json-patch+json": components["schemas"]["JsonPatch"];
                /**
                 * @example {
                 *       "price": 2,
                 *       "discount": null
                 *     }
                 */
                "application/merge-patch+json": components["schemas"]["MergePatch"];
            };
        };
        responses: {
            /** @description The draft is begun. `ETag` is the draft's */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Location: components["headers"]["Location"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The draft is patched. `ETag` is the draft's */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request does not fit the current state of the resource */
            409: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The draft is scheduled to be published at 2027-01-31T08:00:00.000Z, and cannot be changed until then"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json-patch+json or application/merge-patch+json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Operation 1 (replace \"/price\"): there is nothing at this path"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    listPreviewLinks: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The links */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Link: components["headers"]["Link-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PreviewLink"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    createPreviewLink: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "For Ada",
                 *       "expires_in": 86400
                 *     }
                 */
                "application/json": components["schemas"]["CreatePreviewLink"];
            };
        };
        responses: {
            /** @description The link with its token, which is shown only once */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Location: components["headers"]["Location"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewPreviewLink"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "A page can have 20 preview links: delete one that is not needed any more"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    deletePreviewLink: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
                /**
                 * @description The `id` of the link
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                link_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getPublication: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The state of the page */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Publication"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    publishLandingPage: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "base_version": 5
                 *     }
                 */
                "application/json": components["schemas"]["Publish"];
            };
        };
        responses: {
            /** @description The published page */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request does not fit the current state of the resource */
            409: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The document has changed since the draft was begun: the draft is based on version 3, the current version is 5"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Current data can't be blank"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    listLandingPageReads: {
        parameters: {
            query?: {
                /**
                 * @description The first hour or day is the one that contains this time. Default: as many as make 24 hours or 30 days. A date stands for its start in UTC.
                 * @example 2026-11-23
                 */
                from?: string;
                /** @description Whether to count by hour or by day, in UTC. At most 750 hours or days can be read at once. */
                per?: "hour" | "day";
                /**
                 * @description Hours or days that begin at this time or later are left out. Default: now. A date stands for its start in UTC.
                 * @example 2026-11-24T00:00:00Z
                 */
                to?: string;
            };
            header?: never;
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The read counts, oldest first */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReadCount"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "From must be before to"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    listRevisions: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The versions, without their documents */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Link: components["headers"]["Link-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Revision"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getRevision: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
                /**
                 * @description The `version` of the revision
                 * @example 3
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The document */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "title": "Hello",
                     *       "price": 1
                     *     }
                     */
                    "application/json": components["schemas"]["Document"];
                };
            };
            /** @description Not changed: the client has the current version */
            304: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    restoreRevision: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
                /**
                 * @description The `version` of the revision
                 * @example 3
                 */
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page, with the restored document */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getSchedule: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The schedule */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Schedule"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    putSchedule: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "publish_at": "2027-01-31T08:00:00+01:00",
                 *       "unpublish_at": null
                 *     }
                 */
                "application/json": components["schemas"]["PutSchedule"];
            };
        };
        responses: {
            /** @description The schedule */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Schedule"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing to publish: the page is published and has no draft"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    deleteSchedule: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page has no schedule */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    unpublishLandingPage: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The unpublished page */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getLandingPageByKey: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `key` of the page
                 * @example summer-sale
                 */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description Not changed: the client has the current version */
            304: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    putLandingPageByKey: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
                /** @description Write only if there was no change since this date */
                "if-unmodified-since"?: string;
                /** @description `wait=N` (1 to 60): respond when readers get the change everywhere, or after N seconds */
                prefer?: string;
            };
            path: {
                /**
                 * @description The `key` of the page
                 * @example summer-sale
                 */
                key: string;
            };
            cookie?: never;
        };
        /** @description A JSON object or array, by default of at most 1 MiB, nested at most 100 levels deep. The service stores it byte for byte as it was sent. */
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "title": "Hello",
                 *       "price": 1
                 *     }
                 */
                "application/json": components["schemas"]["Document"];
            };
        };
        responses: {
            /** @description The page is created */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    Location: components["headers"]["Location"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LandingPage"];
                };
            };
            /** @description The document is stored. `ETag` is the new document's */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Publication": components["headers"]["Landfall-Publication-if-any"];
                    "Preference-Applied": components["headers"]["Preference-Applied-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service does not allow this */
            403: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "API key lacks the scope pages:write"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Key must have 1 to 63 characters, only a to z, 0 to 9, \".\", \"_\" and \"-\", and begin with a letter or digit"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: {
                /** @description Respond with 304 if the current ETag is in this list */
                "if-none-match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The API description */
            200: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Encoding": components["headers"]["Content-Encoding-if-any"];
                    ETag: components["headers"]["ETag"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            /** @description The API description has not changed */
            304: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    readPreview: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `public_id` of the page
                 * @example 4nJ8sQzR2bXw7kLmT0yHcV
                 */
                public_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The draft, or the document */
            200: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Preview": components["headers"]["Landfall-Preview"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "title": "Hello",
                     *       "price": 1
                     *     }
                     */
                    "application/json": components["schemas"]["Document"];
                };
            };
            /** @description The client has this draft or document */
            304: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Preview": components["headers"]["Landfall-Preview"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing, invalid or expired preview token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Too many requests, try again in 34 seconds"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    askForPreview: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The `public_id` of the page
                 * @example 4nJ8sQzR2bXw7kLmT0yHcV
                 */
                public_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The read is allowed */
            204: {
                headers: {
                    "Access-Control-Allow-Headers": components["headers"]["Access-Control-Allow-Headers"];
                    "Access-Control-Allow-Methods": components["headers"]["Access-Control-Allow-Methods"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Access-Control-Max-Age": components["headers"]["Access-Control-Max-Age"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control-if-any"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    headPreview: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the current ETag is one of these */
                "if-match"?: string;
                /** @description Answer 304 if there was no change since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the current ETag is one of these */
                "if-none-match"?: string;
                /** @description Answer 412 if there was a change since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description The `public_id` of the page
                 * @example 4nJ8sQzR2bXw7kLmT0yHcV
                 */
                public_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The draft, or the document */
            200: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Preview": components["headers"]["Landfall-Preview"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The client has this draft or document */
            304: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag"];
                    "Landfall-Preview": components["headers"]["Landfall-Preview"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Too many requests */
            429: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    "X-Robots-Tag": components["headers"]["X-Robots-Tag-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    readFile: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the file has one of these ETags */
                "if-match"?: string;
                /** @description Answer 304 if the file has not been modified since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the file has one of these ETags */
                "if-none-match"?: string;
                /** @description Apply `Range` only if the file has this ETag or date; otherwise return the whole file */
                "if-range"?: string;
                /** @description Answer 412 if the file has been modified since this date */
                "if-unmodified-since"?: string;
                /** @description Return only a part of the file, such as `bytes=0-99` */
                range?: string;
            };
            path: {
                /**
                 * @description What follows `/uploads/` in the `url` of an asset or of one of its variants
                 * @example 7Hq2LJtB7sZ4uNfE8aGd1o.png
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file */
            200: {
                headers: {
                    "Accept-Ranges": components["headers"]["Accept-Ranges"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    "Content-Disposition": components["headers"]["Content-Disposition"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    "*/*": string;
                };
            };
            /** @description A part of the file */
            206: {
                headers: {
                    "Accept-Ranges": components["headers"]["Accept-Ranges"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    "Content-Disposition": components["headers"]["Content-Disposition"];
                    "Content-Range": components["headers"]["Content-Range"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content: {
                    "*/*": string;
                };
            };
            /** @description The file has not changed */
            304: {
                headers: {
                    "Accept-Ranges": components["headers"]["Accept-Ranges"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The resource has changed: If-Match does not match its current ETag"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The range is outside of the file */
            416: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Content-Range": components["headers"]["Content-Range"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Range lies outside of the file"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    askForFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description What follows `/uploads/` in the `url` of an asset or of one of its variants
                 * @example 7Hq2LJtB7sZ4uNfE8aGd1o.png
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Reading is allowed */
            204: {
                headers: {
                    "Access-Control-Allow-Headers": components["headers"]["Access-Control-Allow-Headers"];
                    "Access-Control-Allow-Methods": components["headers"]["Access-Control-Allow-Methods"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Access-Control-Max-Age": components["headers"]["Access-Control-Max-Age"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Vary: components["headers"]["Vary"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    headFile: {
        parameters: {
            query?: never;
            header?: {
                /** @description Answer 412 unless the file has one of these ETags */
                "if-match"?: string;
                /** @description Answer 304 if the file has not been modified since this date */
                "if-modified-since"?: string;
                /** @description Answer 304 if the file has one of these ETags */
                "if-none-match"?: string;
                /** @description Answer 412 if the file has been modified since this date */
                "if-unmodified-since"?: string;
            };
            path: {
                /**
                 * @description What follows `/uploads/` in the `url` of an asset or of one of its variants
                 * @example 7Hq2LJtB7sZ4uNfE8aGd1o.png
                 */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file */
            200: {
                headers: {
                    "Accept-Ranges": components["headers"]["Accept-Ranges"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    "Content-Disposition": components["headers"]["Content-Disposition"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The file has not changed */
            304: {
                headers: {
                    "Accept-Ranges": components["headers"]["Accept-Ranges"];
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Cache-Tag": components["headers"]["Cache-Tag-if-any"];
                    ETag: components["headers"]["ETag"];
                    "Last-Modified": components["headers"]["Last-Modified"];
                    "Surrogate-Key": components["headers"]["Surrogate-Key-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    xkey: components["headers"]["xkey-if-any"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Access-Control-Allow-Origin": components["headers"]["Access-Control-Allow-Origin"];
                    "Access-Control-Expose-Headers": components["headers"]["Access-Control-Expose-Headers"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    listWebhooks: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The webhooks */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Link: components["headers"]["Link-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    createWebhook: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "url": "https://build.example.com/hooks/landfall",
                 *       "name": "Website build",
                 *       "batch_seconds": 60
                 *     }
                 */
                "application/json": components["schemas"]["CreateWebhook"];
            };
        };
        responses: {
            /** @description The webhook with its secret, which is shown only once */
            201: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Location: components["headers"]["Location"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewWebhook"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Url must be an https:// address"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    getWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The webhook */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    deleteWebhook: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            204: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    changeWebhook: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "active": true
                 *     }
                 */
                "application/json": components["schemas"]["ChangeWebhook"];
            };
        };
        responses: {
            /** @description The webhook */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Webhook"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is not valid JSON (line 1, column 13)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Url must be an https:// address"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    listDeliveries: {
        parameters: {
            query?: {
                /** @description Cursor of the next page, from the Link header of the previous response */
                cursor?: string;
                /** @description Maximum number of records in the response */
                limit?: number;
            };
            header?: never;
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    Link: components["headers"]["Link-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Delivery"][];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Limit must be a whole number from 1 to 100"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    redeliver: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the message
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b58
                 */
                delivery_id: string;
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message is queued */
            202: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    replaceWebhookSecret: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The new secret, which is shown only once */
            200: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookSecret"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    syncWebhook: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The number of messages that are queued */
            202: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueuedMessages"];
                };
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
    testWebhook: {
        parameters: {
            query?: never;
            header?: {
                /** @description Write only if the current ETag is one of these */
                "if-match"?: string;
                /** @description Write only if the current ETag is none of these */
                "if-none-match"?: string;
            };
            path: {
                /**
                 * @description The `id` of the record
                 * @example 019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57
                 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message is queued */
            202: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The URL, the Host header or the body is malformed */
            400: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request is malformed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The access token or API key is missing or invalid, or the credentials in the body are wrong */
            401: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "WWW-Authenticate": components["headers"]["WWW-Authenticate"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Missing or invalid access token"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The record does not exist or belongs to another account */
            404: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Not found"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The URL does not support the method */
            405: {
                headers: {
                    Allow: components["headers"]["Allow"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Method is not allowed here"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body took too long to arrive */
            408: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request took too long to arrive"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description A condition, such as `If-Match`, is false */
            412: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    ETag: components["headers"]["ETag-if-any"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "There is nothing here that If-Match could match"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The body, or a part of it, is too large */
            413: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Request body is too large (maximum is 65536 bytes)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The Content-Type is not supported, or the body has a Content-Encoding */
            415: {
                headers: {
                    "Accept-Encoding": components["headers"]["Accept-Encoding-if-any"];
                    "Accept-Patch": components["headers"]["Accept-Patch-if-any"];
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Content-Type must be application/json"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The request breaks rules; `errors` has one sentence per broken rule */
            422: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Query parameter page is unknown (this route has none)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description Internal error; the sentence contains the request id */
            500: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "Something went wrong (request fQ2xVbY0p9Lk-1c)"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
            /** @description The service is overloaded, or a dependency is unavailable */
            503: {
                headers: {
                    "Cache-Control": components["headers"]["Cache-Control"];
                    "Retry-After": components["headers"]["Retry-After"];
                    "X-Request-Id": components["headers"]["X-Request-Id"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "errors": [
                     *         "The service is temporarily unavailable, try again shortly"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Errors"];
                };
            };
        };
    };
}
