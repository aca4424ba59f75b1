'use strict';
// The engine's own client, as its users have it, pointed at the address in the first argument with
// the token in the second. Prints what it got as JSON.
const cube = require('@cubejs-client/core');

const [, , apiUrl, token] = process.argv;

async function main() {
  // `POST` for everything, metadata included, is what the dashboards of forges set.
  const api = cube.default('unused', { apiUrl, method: 'POST', headers: { 'PRIVATE-TOKEN': token } });
  const meta = await api.meta();
  const sessions = await api.load({
    measures: ['Sessions.count'],
    timeDimensions: [{ dimension: 'Sessions.startAt', granularity: 'day', dateRange: ['2024-05-01', '2024-05-05'] }],
  });
  // Takes longer than the engine waits: the client asks again until it is there.
  const polls = [];
  const slow = await api.load({ measures: ['SlowReport.total'] }, { progressCallback: () => polls.push(1) });
  const refused = await api.load({ measures: ['TrackedEvents.nope'] }).catch((error) => error.response.message);
  console.log(JSON.stringify({
    cubes: meta.cubes.map((each) => each.name).sort(),
    sessions: sessions.tablePivot(),
    slow: slow.rawData(),
    polls: polls.length,
    refused,
  }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
