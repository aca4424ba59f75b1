'use strict';
// A data source for the engine over the npm package `libsql`, whose SQLite comes ready-made. The
// engine finds it by its rule for drivers: CUBEJS_DB_TYPE=libsql is the package
// `libsql-cubejs-driver`. Queries run in a thread of their own, as in a real database, so that a
// slow one leaves the engine free to say so.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

function worker() {
  const Database = require('libsql');
  const db = new Database(workerData.file);
  parentPort.on('message', ({ id, sql, values }) => {
    try {
      parentPort.postMessage({ id, rows: db.prepare(sql).all(...values) });
    } catch (error) {
      parentPort.postMessage({ id, error: error.message });
    }
  });
}

function driver() {
  const { BaseDriver } = require('@cubejs-backend/base-driver');
  const { SqliteQuery } = require('@cubejs-backend/schema-compiler/dist/src/adapter/SqliteQuery');

  return class LibsqlDriver extends BaseDriver {
    static getDefaultConcurrency() {
      return 2;
    }

    static dialectClass() {
      return SqliteQuery;
    }

    constructor({ file }) {
      super({});
      this.waiting = new Map();
      this.next = 1;
      this.worker = new Worker(__filename, { workerData: { file } });
      this.worker.unref();
      this.worker.on('message', ({ id, rows, error }) => {
        const { resolve, reject } = this.waiting.get(id);
        this.waiting.delete(id);
        if (error === undefined) resolve(rows);
        else reject(new Error(error));
      });
    }

    testConnection() {
      return this.query('SELECT 1', []);
    }

    query(sql, values) {
      return new Promise((resolve, reject) => {
        const id = this.next++;
        this.waiting.set(id, { resolve, reject });
        this.worker.postMessage({ id, sql, values: values || [] });
      });
    }

    async release() {
      await this.worker.terminate();
    }
  };
}

if (isMainThread) module.exports = driver();
else worker();
