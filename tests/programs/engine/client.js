'use strict';
// The engine's own client, as its users have it, pointed at the address in the first argument with
// the token in the second, and always with the method in the third, if there is one. Prints what it got
// as JSON.
const cube = require('@cubejs-client/core');

const [, , apiUrl, token, method] = process.argv;

// `POST` for everything, metadata included, is what the dashboards of forges set.
const client = (privateToken) => cube.default('unused', {
  apiUrl, method: method || undefined, headers: { 'PRIVATE-TOKEN': privateToken },
});

// The text that the client shows of an error.
const errorOf = (promise) => promise.then(() => 'no error', (error) => error.message);

const byDay = (measure, dimension) => ({
  measures: [measure],
  timeDimensions: [{ dimension, granularity: 'day', dateRange: ['2024-05-01', '2024-05-05'] }],
});

async function main() {
  const api = client(token);
  const meta = await api.meta();
  const sessions = await api.load(byDay('Sessions.count', 'Sessions.startAt'));
  const several = [byDay('TrackedEvents.count', 'TrackedEvents.utcTime'), byDay('Sessions.count', 'Sessions.startAt')];
  const blended = await api.load(several);
  const analyzed = await api.dryRun(several);
  // Takes longer than the engine waits: the client asks again until it is there.
  const polls = [];
  const slow = await api.load({ measures: ['SlowReport.total'] }, { progressCallback: () => polls.push(1) });
  const query = { measures: ['TrackedEvents.count'] };
  const subscribed = await new Promise((resolve) => {
    const subscription = api.subscribe(query, {}, (error) => {
      subscription.unsubscribe();
      resolve(error ? error.message : 'no error');
    });
  });
  console.log(JSON.stringify({
    cubes: meta.cubes.map((each) => each.name).sort(),
    sessions: sessions.tablePivot(),
    slow: slow.rawData(),
    polls: polls.length,
    blended: blended.decompose().flatMap((each) => Object.keys(each.annotation().measures)).sort(),
    analyzed: analyzed.queryType,
    refused: await errorOf(api.load({ measures: ['TrackedEvents.nope'] })),
    sql: await errorOf(api.sql(query)),
    subscribed,
    denied: await errorOf(client('wrong').meta()),
  }));
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
