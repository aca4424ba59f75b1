'use strict';
// The engine, on a port of its own on 127.0.0.1, over one SQLite file a project in the folder that
// is the first argument. Prints `listening on PORT`. The key is in CUBEJS_API_SECRET.
const fs = require('fs');
const path = require('path');
const http = require('http');
const express = require('express');
const Database = require('libsql');
const { CubejsServerCore } = require('@cubejs-backend/server-core');
const Driver = require('libsql-cubejs-driver');

const [, , folder] = process.argv;
const fileOf = (appId) => path.join(folder, `${appId}.sqlite`);

// Some events are of today, for queries that ask for this week.
function fill() {
  const lines = fs.readFileSync(path.join(__dirname, 'tracked_events.csv'), 'utf8').trim().split('\n').slice(1);
  const today = new Date().toISOString().slice(0, 10);
  const projects = new Map();
  for (const [project, ...event] of lines.map((line) => line.split(','))) {
    projects.set(project, [...(projects.get(project) || []), event]);
  }
  for (const [project, events] of projects) {
    const db = new Database(fileOf(`gitlab_project_${project}`));
    db.exec('CREATE TABLE tracked_events (event_id TEXT PRIMARY KEY, event_name TEXT, doc_path TEXT, user_id TEXT, session_id TEXT, utc_time TEXT)');
    const insert = db.prepare('INSERT INTO tracked_events VALUES (?,?,?,?,?,?)');
    for (const event of events) insert.run(...event.map((field) => field.replace('@today', today)));
    db.close();
  }
}

// Any other token is of no project.
function appIdOf(securityContext) {
  const { appId } = securityContext || {};
  return /^gitlab_project_[0-9]{1,12}$/.test(appId || '') ? appId : 'none';
}

async function main() {
  fill();
  const core = new CubejsServerCore({
    apiSecret: process.env.CUBEJS_API_SECRET,
    devServer: false,
    telemetry: false,
    schemaPath: 'model',
    scheduledRefreshTimer: false,
    contextToAppId: ({ securityContext }) => `app_${appIdOf(securityContext)}`,
    contextToOrchestratorId: ({ securityContext }) => `orchestrator_${appIdOf(securityContext)}`,
    driverFactory: ({ securityContext }) => {
      const appId = appIdOf(securityContext);
      if (!fs.existsSync(fileOf(appId))) {
        // The error of ClickHouse for a missing database.
        throw new Error(`Code: 81. DB::Exception: Database ${appId} doesn't exist. (UNKNOWN_DATABASE)`);
      }
      return new Driver({ file: fileOf(appId) });
    },
    orchestratorOptions: { continueWaitTimeout: 1 },
  });
  const app = express();
  app.use(express.json({ limit: '50mb' }));
  await core.initApp(app);
  const server = http.createServer(app).listen(0, '127.0.0.1', () => {
    console.log(`listening on ${server.address().port}`);
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
