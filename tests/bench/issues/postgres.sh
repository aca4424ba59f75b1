#!/bin/sh
# A PostgreSQL of our own with the issues of a folder that generate.py wrote.
# usage: postgres.sh FOLDER DATA      starts it, and fills it the first time; prints its socket's folder
#        postgres.sh stop DATA
set -eu
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | tail -n 1)")
[ -x "$bin/initdb" ] || { echo "PostgreSQL is not installed; on Debian it is the package postgresql" >&2; exit 1; }
# PostgreSQL does not run as root.
as() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }
if [ "$1" = stop ]; then as "$bin/pg_ctl" -D "$2/cluster" -m fast stop >&2; exit; fi
folder=$1 data=$2
mkdir -p "$data"
[ "$(id -u)" = 0 ] && chown postgres "$data"
if [ ! -d "$data/cluster" ]; then
  as "$bin/initdb" -D "$data/cluster" --auth=trust --username=bench --encoding=UTF8 --locale=C.UTF-8 >&2
  cat >> "$data/cluster/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$data'
shared_buffers = 1GB
work_mem = 64MB
maintenance_work_mem = 1GB
effective_cache_size = 4GB
max_wal_size = 8GB
random_page_cost = 1.1
# PostgreSQL then writes a new table's rows, and a new index, once instead of twice.
wal_level = minimal
max_wal_senders = 0
CONF
fi
as "$bin/pg_ctl" -D "$data/cluster" -l "$data/log" -w start >&2
[ -e "$data/filled" ] && { echo "$data"; exit; }
sql() { as "$bin/psql" -h "$data" -U bench -d postgres -q -v ON_ERROR_STOP=1 "$@" >&2; }
# psql stops at the first error.
load() {
  echo "BEGIN;"
  cat <<SQL
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE TABLE users (id int, username text, is_admin bool);
CREATE TABLE namespaces (id int, full_path text, parent_id int, visibility text);
CREATE TABLE projects (id int, namespace_id int, full_path text, visibility text);
CREATE TABLE members (source_type text, source_id int, user_id int, access_level int);
CREATE TABLE issues (id int, iid int, project_id int, title text, description text, state text,
  created_at timestamptz, updated_at timestamptz, author_id int, milestone text, confidential bool, epic_id int);
CREATE TABLE issue_labels (issue_id int, label text);
CREATE TABLE issue_assignees (issue_id int, user_id int);
CREATE TABLE reactions (issue_id int, user_id int, name text);
SQL
  for table in users namespaces projects members issues issue_labels issue_assignees reactions; do
    echo "COPY $table FROM STDIN;"
    cat "$folder/$table.tsv"
    echo '\.'
  done
  echo "COMMIT;"
}
load | sql
sql -c "ALTER TABLE issues ADD PRIMARY KEY (id)"
# The largest index takes as long as all others together, so it is built beside them. No other statement locks its table.
sql -c "CREATE INDEX ON issues USING gin (description gin_trgm_ops)" &
descriptions=$!
sql <<SQL
-- Who may do what where, inherited roles included, as a forge keeps it.
CREATE TABLE authorizations AS
WITH RECURSIVE below(root, id) AS (
  SELECT id, id FROM namespaces UNION ALL SELECT below.root, n.id FROM namespaces n JOIN below ON n.parent_id = below.id)
SELECT user_id, project_id, max(access_level) AS access_level FROM (
  SELECT user_id, source_id AS project_id, access_level FROM members WHERE source_type = 'project' UNION ALL
  SELECT m.user_id, p.id, m.access_level FROM members m JOIN below ON below.root = m.source_id
    JOIN projects p ON p.namespace_id = below.id WHERE m.source_type = 'group') AS every GROUP BY 1, 2;
ALTER TABLE authorizations ADD PRIMARY KEY (user_id, project_id);
ALTER TABLE users ADD PRIMARY KEY (id);
CREATE UNIQUE INDEX ON users (lower(username));
ALTER TABLE namespaces ADD PRIMARY KEY (id);
CREATE INDEX ON namespaces (parent_id);
ALTER TABLE projects ADD PRIMARY KEY (id);
CREATE INDEX ON projects (namespace_id);
CREATE INDEX ON issues (project_id, state);
CREATE INDEX ON issues (project_id, iid);
CREATE INDEX ON issues (author_id);
CREATE INDEX ON issues (state);
CREATE INDEX ON issues (milestone);
CREATE INDEX ON issues (epic_id) WHERE epic_id IS NOT NULL;
CREATE INDEX ON issues (created_at);
CREATE INDEX ON issues (updated_at);
CREATE INDEX ON issues (iid);
CREATE INDEX ON issues (project_id) WHERE confidential;
CREATE UNIQUE INDEX ON issue_labels (label, issue_id);
CREATE INDEX ON issue_labels (issue_id);
CREATE UNIQUE INDEX ON issue_assignees (user_id, issue_id);
CREATE INDEX ON issue_assignees (issue_id);
CREATE INDEX ON reactions (user_id, name, issue_id);
CREATE INDEX ON reactions (issue_id);
CREATE INDEX ON issues USING gin (title gin_trgm_ops);
SQL
wait "$descriptions"
sql -c "VACUUM ANALYZE"
as touch "$data/filled"
echo "$data"
